"""Translation of definitions between two languages: that of the patch of 2009, and that of kernels since 2.6.33.

A kernel's version doesn't tell its language: the patch's events have a file `enabled`, and without events the missing
README of its tracefs tells.  Source: the documents of `kprobe-sim replay`, tracer-2009 and wind-river.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.tracefs.tracefs import Tracefs

# a fetch argument of 2009, perhaps with a type, as written for later kernels
_LETTERS = re.compile(r"(?:[^=]*=)?(?:[+-]u?(?:0x[0-9a-f]+|\d+)\()*(a\d+|s\d+|sa|rv|ra)\)*(?::[a-z]\w*(?:\[\d+\])?)?")
_VARIABLES = re.compile(r"\$(arg\d+|stack\d*|retval|comm)\b")
_ARGUMENT = re.compile(r"\$arg([1-9]\d*)")
_TYPE = re.compile(r":([a-z]\w*)(?:\[\d+\])?\Z")
_NAMED = re.compile(r"[A-Za-z_]\w*=(.+)")
_BASIC = re.compile(r"[su](?:8|16|32|64)")  # of every kernel that has types
_REGISTER = re.compile(r"%(\w*)")
_REGISTERS = re.compile(r"[abcd]x|[sd]i|[bsi]p|r(?:[89]|1[0-5])|flags|orig_ax|[c-gs]s|[fg]s_base|$")
_PARSE_ERROR = re.compile(r"(?:\w+: )?Parse error at argument(?:\d+|\[\d+\])\. \(-22\)")
_UNSUPPORTED = re.compile(r"(?:\w+: )?Unsupported type: (\S+)")
# its word in a kernel's README, its form, and what to do on a kernel without it
_LATER = (
    ("array-size", re.compile(r".*:[a-z]\w*\[\d+\]"), "no arrays: write an argument for each element"),
    ("imm-value", re.compile(r"(?:[^=]*=)?\\(?s:.*)"), "no values that stand for themselves: leave it out"),
    ("[u]<offset>", re.compile(r".*[+-]u(?:0x)?\d(?s:.*)"), "no +u: +0(…) reads the memory of processes, too"),
)
WITHOUT_COMM = "every line begins with the task's name"
STACK_OF_2009 = "sa"
_WORDS = {
    STACK_OF_2009: "write $stack",
    "rv": "write $retval",
    "ra": "leave it out: the lines of a return probe show where it returns to",
}


def switch(tracefs: Tracefs, event: str) -> str:
    """Return the name of the file that enables an event: "enable", or "enabled" of the patch of 2009."""
    return "enabled" if tracefs.exists(f"events/{event}/enabled") else "enable"


def has_groups(tracefs: Tracefs) -> bool:
    """Return whether a definition can name a group: not in the patch of 2009, whose tracefs has no README."""
    return tracefs.exists("README")


def readme(tracefs: Tracefs) -> str:
    """Return the README, which says what a kernel takes; "" if there is none."""
    try:
        return tracefs.read("README").decode(errors="replace")
    except OSError:
        return ""


def removal(tracefs: Tracefs, event: str, file: str) -> str:
    """Return how to remove an event: a shell line, and what it does."""
    if switch(tracefs, event) == "enabled":
        return f"remove all probes, as this kernel removes no single one: echo > {file}"
    return f"remove it: echo '-:{event}' >> {file}"


def of_stack(tracefs: Tracefs, name: str) -> str:
    """Return the fetch argument for the stack pointer, with a name; in 2009 the name is the word itself."""
    return f"{name}=$stack" if has_groups(tracefs) else STACK_OF_2009


def of_return(tracefs: Tracefs) -> str:
    """Return the fetch argument for a function's return value."""
    return "$retval" if has_groups(tracefs) else "rv"


def hint(tracefs: Tracefs, args: tuple[str, ...]) -> str:
    """Return how to write a refused argument for this kernel, "" if none is in another language."""
    if not has_groups(tracefs):
        return _of_2009(args)
    text = readme(tracefs)
    has_comm = "$comm" in text
    for arg in args:
        for word, written, instead in _LATER if text else ():
            if word not in text and written.fullmatch(arg):
                return f"this kernel has {instead}"
        if not has_comm and re.search(r"\$comm\b", arg):
            return f"$comm came with Linux 4.8; before that, {WITHOUT_COMM}"
        letters = _LETTERS.fullmatch(arg)
        if letters:
            return f"{letters[1]} was for the patch of 2009: {_variable(letters[1], _has_arguments(tracefs))}"
        variable = _ARGUMENT.search(arg)
        if variable and not _has_arguments(tracefs):
            return f"{variable[0]} came with Linux 4.20; before that, {_register(int(variable[1]) - 1)}"
    return ""


def unsaid(args: tuple[str, ...], printed: list[str]) -> str:
    """Return what is wrong with arguments of which an old kernel printed only the number; "" if unknown."""
    for line in printed:
        if found := _UNSUPPORTED.fullmatch(line):
            return (
                f"there is no type {found[1]} here: u8 to u64 and s8 to s64 are there, and string of what is in memory"
            )
    if not all(map(_PARSE_ERROR.fullmatch, printed)):
        return ""
    for arg in args:
        for register in _REGISTER.findall(arg):
            if not _REGISTERS.fullmatch(register):
                return f"there is no register %{register}: they are %ax %bx %cx %dx %si %di %bp %sp %ip %r8 … %r15"
    for arg in args:
        kind = _TYPE.search(arg)
        if kind and _BASIC.fullmatch(kind[1]):
            return f"this kernel may have no types, which came with Linux 2.6.35: leave {kind[0]} out"
    return ""


def _of_2009(args: tuple[str, ...]) -> str:
    for arg in args:
        variable = _VARIABLES.search(arg)
        if variable and variable[1] == "comm":
            return f"$comm came later: {WITHOUT_COMM}"
        if variable:
            return f"{variable[0]} came later: this kernel has {_letters(variable[1])}"
        if _TYPE.search(arg):
            return "this kernel has no types: every value is an unsigned long"
    return ""


def unnamed(args: tuple[str, ...]) -> str:
    """Return what to write if only the names of arguments can be wrong (they came late in 2009); "" without names."""
    named = next(filter(None, map(_NAMED.fullmatch, args)), None)
    return f"if arguments have no names here, as in revision 13: {named[1]} in place of {named[0]}" if named else ""


def _letters(variable: str) -> str:
    if variable == "retval":
        return "rv"
    if variable == "stack":
        return STACK_OF_2009
    number = int(variable.lstrip("argstck"))
    return f"s{number}" if variable.startswith("stack") else f"a{number - 1}, which counts from 0"


def _variable(letters: str, has_arguments: bool) -> str:
    known = _WORDS.get(letters)
    if known:
        return known
    number = int(letters[1:])
    if letters[0] == "s":
        return f"write $stack{number}"
    return f"write $arg{number + 1}, which counts from 1" if has_arguments else _register(number)


def _register(number: int) -> str:
    registers = ("%di", "%si", "%dx", "%cx", "%r8", "%r9")
    if number < len(registers):
        return f"write {registers[number]}, its register on x86-64"
    return f"write $stack{number - len(registers) + 1}, its place on x86-64"


def _has_arguments(tracefs: Tracefs) -> bool:
    """Return whether the README says that a function's arguments have names."""
    text = readme(tracefs)
    return "$arg<N>" in text or "$argN" in text
