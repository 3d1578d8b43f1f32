"""Fetch arguments as written for other machines, by other tools or in a hurry -> as the kernel takes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Protocol


class Language(Protocol):
    """A kernel's language: its README, and its spelling of $argN."""

    @property
    def readme(self) -> str: ...

    def value(self, number: int) -> str: ...


REGISTERS = ("%di", "%si", "%dx", "%cx", "%r8", "%r9")  # of a function's arguments, System V ABI of x86-64
MOST_ELEMENTS = 64  # of an array, MAX_ARRAY_LEN of trace_probe.h
# where a system call's arguments are in struct pt_regs; the fourth is in r10, not cx (arch/x86/entry/entry_64.S)
SAVED = {"di": 112, "si": 104, "dx": 96, "cx": 56, "r10": 56, "r8": 72, "r9": 64}
C_TYPES = {
    **dict.fromkeys(("int", "signed", "pid_t", "int32_t", "__s32", "i32", "int32"), "s32"),
    **dict.fromkeys(("unsigned", "uint", "u_int", "uint32_t", "__u32", "uid_t", "uint32", "dword", "mode_t"), "u32"),
    **dict.fromkeys(("long", "ssize_t", "int64_t", "__s64", "i64", "int64", "loff_t", "s128"), "s64"),
    **dict.fromkeys(("ulong", "size_t", "uint64_t", "__u64", "uint64", "qword", "u128"), "u64"),
    **dict.fromkeys(("short", "int16_t", "__s16", "i16", "int16"), "s16"),
    **dict.fromkeys(("ushort", "uint16_t", "__u16", "uint16", "word"), "u16"),
    **dict.fromkeys(("bool", "byte", "uint8_t", "__u8", "uchar", "uint8"), "u8"),
    **dict.fromkeys(("schar", "int8_t", "__s8", "i8", "int8"), "s8"),
    **dict.fromkeys(("hex", "ptr", "pointer", "addr", "void", "uintptr_t", "x", "p"), "x64"),
    **dict.fromkeys(("str", "s", "cstring", "text", "chars"), "string"),
    **dict.fromkeys(("sym", "func", "function", "ksym"), "symbol"),
}  # fmt: skip
OLDER = {"ustring": "string", "symstr": "symbol", "char": "s8"}  # for kernels whose README lacks the type
_POINTER = re.compile(r"(?:const ?)?(?:unsigned ?)?(\w+) ?\*+")
_KERNELS = re.compile(r"(?:[sux](?:8|16|32|64)|u?string|symbol|symstr|char|b\d+@\d+/\d+|%p[dD])")
_VALUES = {  # words that are a value by themselves
    **dict.fromkeys(("ret", "rv", "return", "retvalue", "result", "retval"), "$retval"),
    "comm": "$comm",
    "stack": "$stack",
}
_OWN = re.compile(r"(?:[abcd]x|[sd]i|[bsi]p|r(?:[89]|1[0-5])|flags|[c-gs]s)")  # the kernel's names of registers
_WIDE = re.compile(r"[re]([abcd]x|[sd]i|[bsi]p)|(r\d+)[dwb]")
_OTHERS = {"pc": "%ip", "fp": "%bp", "lr": "", "ra": ""}
_ELSEWHERE = re.compile(r"(?:[xwa]|gpr|o|r)(\d+)")  # arm64, riscv and mips, powerpc, sparc, arm
_FIRST = {"gpr": 3}  # the number of the first argument's register, else 0


def from_saved(argument: str) -> str:
    """Return an argument of a system call's wrapper that reads the caller's value from the saved registers."""
    for number, register in enumerate(REGISTERS, 1):
        argument = re.sub(rf"\$arg{number}\b", register, argument)
    new = re.sub(r"%\w+", lambda match: f"+{SAVED[match[0][1:]]}(%di)" if match[0][1:] in SAVED else match[0], argument)
    return re.sub(r"(\(\+\d+\(%di\)\)+:)string\b", r"\1ustring", new)


def corrected(text: str, kernel: Language, parameters: Sequence[str], *, is_return: bool) -> tuple[str, list[str]]:
    """Return a definition's arguments as a kernel takes them, and what was corrected.

    `parameters` are the names of the function's, none unless it is at an entry, or where the kernel knows them.
    """
    argument, readme = kernel.value, kernel.readme
    reasons: list[str] = []
    text = _joined(text, reasons)
    counts_from_0 = re.search(r"(?<![\w])[$%@]?arg0\b", text) is not None
    words = []
    taken: set[str] = set()
    for word in text.split():
        if word.startswith("\\") or "=\\" in word:  # a text that stands for itself
            words.append(word)
            continue
        name, equals, value = word.partition("=") if re.match(r"[^=(%$@]*=", word) else ("", "", word)
        value, kind = _typed(value, reasons, readme)

        def token(match: re.Match[str]) -> str:
            return _token(match, argument, parameters, is_return, counts_from_0, reasons)

        words_of_stack = re.sub(r"\$stack(?:\+(\d+)|\((\d+)\)|\[(\d+)\])", _stack, value)
        if words_of_stack != value:
            reasons.append("the words of the stack are $stack0, $stack1 and so on")
        new = _memory(words_of_stack, reasons)
        new = re.sub(r"(?<![%$@&])([%$@&]*+)(?<![\w.>:/])([A-Za-z_]\w*|(?<=\$)\d+)(?![\w(:/]|->)", token, new)
        new = _followed(new, kind, reasons)
        if not equals and new != value and value.isidentifier() and value in parameters:
            name, equals = value, "="
        name = _named(name, taken, reasons) if equals else name
        words.append(f"{name}{equals}{new}{':' if kind else ''}{kind}")
    return " ".join(words), list(dict.fromkeys(reasons))


def _joined(text: str, reasons: list[str]) -> str:
    """Return the arguments separated by single blanks, with none inside."""
    new = re.sub(r"(?<!\S)([\"'])([^\"']*)\1(?!\S)", r"\2", text)
    if new != text:
        reasons.append("no quotes")
    new = re.sub(r"\\(?=[+$%@])", "", new)
    new = re.sub(r":(?:const )?(?:unsigned )?(\w+) \*", r":\1*", new)
    text, old = re.sub(r"\((?:const )?(?:unsigned )?char \*\) ?([%$]\w+)", r"+0(\1):string", new), new
    text = re.sub(r"(?<![\w:])(u?)str(?:ing)?\(([%$]\w+)\)(?!:)", r"+0(\2):\1string", text)
    if text != old:
        reasons.append("a string is +0(ADDRESS):string")
    new = re.sub(r"(?<=[\w)]) ?= ?(?=\S)", "=", text)
    new = re.sub(r"(?:(?<=[ =(])|^)([+-]u?(?:0x)?[0-9a-fA-F]+) (?=\()", r"\1", new)
    new = re.sub(r"\( (?=\S)|(?<=[\w)]) (?=\))", lambda match: match[0].strip(), new)
    new = re.sub(r"(?<=[\w)]) ?: ?(?=[a-z])", ":", new)
    new = re.sub(r"(?:(?<= )|^)([A-Za-z_]\w*):(?=[%$@+-])", r"\1=", new)
    if new != text:
        reasons.append("no blanks within an argument")
    text, old = re.sub(r", ?(?=\w+=|[%$@+-])|[,;](?= |$)", " ", new), new
    if text != old:
        reasons.append("blanks between arguments, no commas")
    return text


def _typed(value: str, reasons: list[str], readme: str) -> tuple[str, str]:
    """Split a value from its type, corrected to one of the kernel's, "" if it has none."""
    match = re.fullmatch(r"(.+?):([^:()]+)(?::\d+)?", value)
    if match is None or "=" in match[2]:
        return value, ""
    value, kind = match[1], match[2]
    base, brackets, size = kind.partition("[")
    new = base
    pointer = _POINTER.fullmatch(base)
    if pointer:
        new = "string" if pointer[1] == "char" else "x64"
    elif not _KERNELS.fullmatch(base):
        new = C_TYPES.get(base.lower(), base.lower() if _KERNELS.fullmatch(base.lower()) else base)
    elif match[0] != f"{value}:{kind}":
        reasons.append("a type has no length; an array is TYPE[LENGTH]")
    if new[0] == "x" and "x8/16/32/64" not in readme and new in ("x8", "x16", "x32", "x64"):
        new = f"u{new[1:]}"
    lacking = [(late, older) for late, older in OLDER.items() if new == late and f"{late}," not in readme]
    new = lacking[0][1] if lacking else new
    if new != base:
        reasons.append(f"the type {new}, as the kernel has no {base}")
    if new == "string" and base != "string":
        size, brackets = "", ""
    elif brackets and size[:-1].isdigit() and int(size[:-1]) > MOST_ELEMENTS:
        size = f"{MOST_ELEMENTS}]"
        reasons.append(f"an array has at most {MOST_ELEMENTS} elements")
    return value, f"{new}{brackets}{size}"


def _memory(value: str, reasons: list[str]) -> str:
    """Return a value with memory accesses in the kernel's form: +OFFSET(ADDRESS)."""
    new = re.sub(r"^u\+(?=\d)", "+u", value)
    while re.match(r"\*[^*\s]|\*\*+[^*\s]", new):
        new = f"+0({new[1:].removeprefix('(').removesuffix(')') if new[1:2] == '(' else new[1:]})"
    new = re.sub(r"^\[([%$][^\[\]]+)\]$", r"+0(\1)", new)
    new = re.sub(r"^\(([%$]\w+)\)$", r"+0(\1)", new)
    new = re.sub(r"^((?:0x)?\d[0-9a-fA-F]*)(?=\()", r"+\1", new)
    new = re.sub(r"(?<=\()((?:0x)?\d[0-9a-fA-F]*)(?=\()", r"+\1", new)
    new = re.sub(r"^([+-]u?(?:0x)?[0-9a-fA-F]+?)([%$]\w+)$", r"\1(\2)", new)
    new += ")" * (new.count("(") - new.count(")"))
    if new != value:
        reasons.append("memory is +OFFSET(ADDRESS)")
    return new


def _stack(match: re.Match[str]) -> str:
    return f"$stack{int(match[1]) // 8 if match[1] else match[2] or match[3]}"


def _token(
    match: re.Match[str],
    argument: Callable[[int], str],
    parameters: Sequence[str],
    is_return: bool,
    counts_from_0: bool,
    reasons: list[str],
) -> str:
    """Return a register, variable or name in the kernel's spelling."""
    sign, name = match[1], match[2]
    low = name.lower()
    if not sign and name in parameters:
        number = parameters.index(name) + 1
        reasons.append(f"this kernel doesn't know {name}, which is {argument(number)}")
        return argument(number)
    new = _argument(sign, low, argument, counts_from_0) or _register(sign, low, argument, is_return)
    if not new and sign == "&":
        new = f"@{name}"
    value = _VALUES.get(low)
    if not new and value and (sign or low in ("retval", "comm", "stack")) and (is_return or value != "$retval"):
        new = value
    new = new or match[0]
    if new != match[0]:
        reasons.append(_why(match[0], sign, low, new, is_return))
    return new


def _why(old: str, sign: str, low: str, new: str, is_return: bool) -> str:
    if re.fullmatch(r"arg\d+", low):
        zero = "; bpftrace counts from 0" if not sign else ""
        return f"{new} for {old}: arguments are $arg1, $arg2 and so on{zero}"
    if sign == "%" and _ELSEWHERE.fullmatch(low) and not _OWN.fullmatch(low):
        what = "the return value" if is_return else "that argument"
        return f"{old} is a register of other machines; {what} is {new} here"
    return f"{new} for {old}"


def _argument(sign: str, low: str, argument: Callable[[int], str], counts_from_0: bool) -> str:
    match = re.fullmatch(r"arg(\d+)", low) or (re.fullmatch(r"(\d+)", low) if sign == "$" else None)
    if match is None or len(match[1]) > 3:
        return ""
    number = int(match[1]) + counts_from_0
    if sign == "$" and not counts_from_0 and argument(1) == "$arg1":
        return f"$arg{number}"
    return argument(number) if number else ""


def _register(sign: str, low: str, argument: Callable[[int], str], is_return: bool) -> str:
    """Return the intended register, "" if none is known."""
    if _OWN.fullmatch(low):
        return f"%{low}" if sign or low in ("di", "si", "dx", "cx", "ax") else ""
    wide = _WIDE.fullmatch(low)
    if wide:
        return f"%{wide[1] or wide[2]}"
    if "%" not in sign:
        return ""
    if low in _OTHERS:
        return _OTHERS[low]
    match = _ELSEWHERE.fullmatch(low)
    if match is None:
        return ""
    number = int(match[1]) - _FIRST.get(low.rstrip("0123456789"), 0)
    if is_return:
        return "$retval" if number == 0 else ""
    most = 4 if low[0] == "r" else 8  # arm passes four in registers, the others eight
    return argument(number + 1) if 0 <= number < min(most, len(REGISTERS)) else ""


def _followed(value: str, kind: str, reasons: list[str]) -> str:
    """Return a value that reads memory if its type requires that."""
    is_text = kind.partition("[")[0] in ("string", "ustring")
    if (is_text or "[" in kind) and re.fullmatch(r"%\w+|\$arg\d+|\$retval|\$stack\d+", value):
        reasons.append("strings and arrays are read from memory")
        return f"+0({value})"
    return value


def _named(name: str, taken: set[str], reasons: list[str]) -> str:
    """Return a valid name for an argument that no other argument has."""
    new = re.sub(r"\W", "_", name)
    new = f"_{new}" if new[:1].isdigit() else new
    stem, number = new, 2
    while new in taken:
        new, number = f"{stem}{number}", number + 1
    taken.add(new)
    if new != name:
        reasons.append(f"{new} for the name {name}")
    return new
