"""Possible continuations of a definition or a filter, as far as it is typed."""

from __future__ import annotations

from collections.abc import Iterable

from kprobe.completion.sources import Offered

HEADS = {
    "p:": "where a function begins, or at an instruction",
    "r:": "where it returns",
    "f:": "where it begins, by fprobe",
    "t:": "at a tracepoint",
    "e:": "at another event",
    "u:": "in a program",
}
REGISTERS = ("%di", "%si", "%dx", "%cx", "%r8", "%r9", "%ax", "%bx", "%bp", "%sp", "%ip")
TYPES = (
    "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "x8", "x16", "x32", "x64", "string", "ustring", "symbol",
    "symstr", "char",
)  # fmt: skip
COMMON = {
    "common_pid": "int",
    "common_type": "unsigned short",
    "common_flags": "unsigned char",
    "common_preempt_count": "unsigned char",
    "comm": "char []",
}
NUMBERS = ("==", "!=", "<", "<=", ">", ">=", "&")
STRINGS = ("==", "!=", "~")


def after(given: list[str], prefix: str, source: Offered) -> dict[str, str]:
    """Return the completions of a word after the other words of a trace: definitions, then the filter."""
    if not given or (is_head(prefix) and "--" not in given):
        return definition(prefix, source)
    found = filter_words([word for word in given if is_head(word)], prefix, source)
    return found if prefix else {**found, **HEADS}


def is_head(word: str) -> bool:
    """Say if a word begins as a definition does: p: or r5:."""
    head, colon, _ = word.partition(":")
    return bool(colon) and head[:1] in ("p", "r", "f", "t", "e", "u") and (not head[1:] or head[1:].isdigit())


def definition(prefix: str, source: Offered) -> dict[str, str]:
    """Return the definitions that continue it by one word."""
    *before, last = prefix.split(" ")
    lead = prefix[: len(prefix) - len(last)]
    before = [word for word in before if word]
    if not before:
        if not is_head(last):
            return HEADS
        head, _, place = last.partition(":")
        return dict.fromkeys((f"{head}:{name}" for name in _places(head[:1], place, source)), "")
    kind = before[0][:1]
    if len(before) == 1:
        return dict.fromkeys((lead + name for name in _places(kind, last, source)), "")
    return {lead + word: what for word, what in _argument(kind, before, last, source).items()}


def _places(kind: str, prefix: str, source: Offered) -> Iterable[str]:
    if kind in "prf":
        return source.functions(prefix)
    if kind == "t":
        return [event.partition("/")[2] for event in source.events()]
    if kind == "e":
        return [event.replace("/", ".") for event in source.events()] if "/" not in prefix else source.events()
    return ()


def _argument(kind: str, before: list[str], last: str, source: Offered) -> dict[str, str]:
    name, equals, value = last.partition("=")
    lead = name + equals if equals else ""
    value = value if equals else name
    start, colon, _ = value.rpartition(":")
    if colon and start:
        return {f"{lead}{start}:{type_}": "" for type_ in TYPES}
    if kind == "e":
        fields = source.fields(before[1].replace(".", "/"))
        return {f"{lead}${field}": what for field, what in fields.items()}
    found = dict.fromkeys(["$retval"] if kind == "r" else [f"$arg{number}" for number in range(1, 7)], "")
    found |= dict.fromkeys(("$comm", "$stack", "$stack0", "+0("), "")
    found |= dict.fromkeys(REGISTERS if kind in "pr" else (), "")
    return {lead + word: what for word, what in found.items()}


def filter_words(definitions: list[str], prefix: str, source: Offered) -> dict[str, str]:
    """Return the filters that continue it by one word: a field, an operator, or && and ||."""
    at = max((prefix.rfind(char) for char in " (!"), default=-1) + 1
    lead, last = prefix[:at], prefix[at:]
    fields = _fields(definitions, source)
    word = lead.rstrip(" (!").rpartition(" ")[2].lstrip("(!")
    if word in fields and lead.endswith(" "):
        found = dict.fromkeys(STRINGS if _is_text(fields[word]) else NUMBERS, "")
    elif word in (*NUMBERS, "~"):
        found = {}
    elif not word or word in ("&&", "||"):
        found = fields
    else:
        found = {"&&": "and", "||": "or"}
    return {lead + one: what for one, what in found.items() if one.startswith(last)}


def _is_text(kind: str) -> bool:
    return "char" in kind and "[" in kind


def _fields(definitions: Iterable[str], source: Offered) -> dict[str, str]:
    """Return the fields of a definition's event: its arguments, and the common fields."""
    found = {}
    for text in definitions:
        names = text.split()
        arguments = names[1:] if names[1:] and (names[1][0] in "$%+-@" or "=" in names[1]) else names[2:]
        for number, argument in enumerate(arguments, 1):
            name, equals, value = argument.partition("=")
            text_ = (value if equals else argument).endswith("string") or value == "$comm"
            found[name if equals else f"arg{number}"] = "char []" if text_ else "number"
        found |= {"__probe_ip": "number"} if text[:1] == "p" else {}
        found |= {"__probe_func": "number", "__probe_ret_ip": "number"} if text[:1] == "r" else {}
    return {**found, **COMMON}
