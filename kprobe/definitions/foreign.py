"""Lines in the spelling of other tools -> the definition that means the same here.

They are perf probe's, bpftrace's, bcc's, SystemTap's, DTrace's and the kernel's boot parameter's.  Whatever isn't a
probe (actions, printf, predicates) is left out.
"""

from __future__ import annotations

import re

_NAME = r"[A-Za-z_*][\w.*?]*"
_PLACE = rf"{_NAME}(?:\+(?:0x)?[0-9a-fA-F]+)?"
_REST = r"(?P<rest>(?:\s+(?![{/\"]).*)?)(?:\s*[{/\"].*)?"  # arguments; then an action, a predicate or a text to print
_USER = r"(?P<path>/[^\s:]+):(?P<symbol>[A-Za-z_]\w*(?:\+\w+)?)"
_MODULE = r"(?:(?:vmlinux:)|(?P<module>[\w-]+:))?"
_ARGUMENT = r"(?:[$%@+\\-]\S*|[A-Za-z_][\w.>\[\]-]*(?:=(?:[^\s>]|->)+)?(?::\w+)?)"
# What precedes and follows a line where a whole command was given
_COMMAND = re.compile(
    r"(?:sudo\s+)?(?:perf\s+probe(?:\s+(?:-a|--add)\b)?[ =]|(?:-a|--add)[ =]|perf\s+\w+\s+-e\s|trace-cmd\s+\w+\s+-e\s|"
    r"(?:bpftrace|stap)\s+-e\s|(?:kprobe|echo)\s)\s*(\S.*)",
    re.S,
)
_INTO = re.compile(r"[\w/.]+\s*>{1,2}\s*")  # its redirection, backwards

# The tool, its form, and the meaning here.  The first that fits counts.
_FORMS = (
    ("bpftrace", rf"(?:kprobe|k|fentry|kfunc):{_MODULE}(?P<place>{_PLACE}){_REST}", "p:{module}{place}{rest}"),
    ("bpftrace", rf"(?:kretprobe|kr|fexit|kretfunc):{_MODULE}(?P<place>{_NAME}){_REST}", "r:{module}{place}{rest}"),
    ("bpftrace", rf"(?:tracepoint|t):(?P<group>\w+):(?P<event>\w+){_REST}", "event"),
    ("bpftrace", rf"(?:rawtracepoint|rt|tp_btf|raw_tp):(?:\w+:)?(?P<event>\w+){_REST}", "t:{event}"),
    ("bpftrace", rf"(?:uprobe|uretprobe|ur|u):{_USER}{_REST}", "file"),
    ("bcc", rf"(?P<kind>[pr])::(?P<place>{_PLACE}){_REST}", "{kind}:{place}{rest}"),
    ("SystemTap", rf'(?:probe\s+)?kernel\.function\("(?P<place>{_NAME})[^"]*"\)(?:\.call)?{_REST}', "p:{place}"),
    ("SystemTap", rf'(?:probe\s+)?kernel\.function\("(?P<place>{_NAME})[^"]*"\)\.return{_REST}', "r:{place}"),
    ("SystemTap", rf'(?:probe\s+)?module\("(?P<module>[\w-]+)"\)\.function\("(?P<place>{_NAME})[^"]*"\){_REST}',
     "p:{module}:{place}"),
    ("SystemTap", rf'(?:probe\s+)?kernel\.trace\("(?P<event>\w+)"\){_REST}', "t:{event}"),
    ("SystemTap", rf"(?:probe\s+)?(?:nd_)?syscall\.(?P<event>\w+){_REST}", "p:__x64_sys_{event}"),
    ("SystemTap", rf"(?:probe\s+)?(?:nd_)?syscall\.(?P<event>\w+)\.return{_REST}", "r:__x64_sys_{event}"),
    ("DTrace", rf"fbt:[\w-]*:(?P<place>{_NAME}):entry{_REST}", "p:{place}"),
    ("DTrace", rf"fbt:[\w-]*:(?P<place>{_NAME}):return{_REST}", "r:{place}"),
    ("DTrace", rf"syscall:\w*:(?P<event>\w+):entry{_REST}", "p:__x64_sys_{event}"),
    ("DTrace", rf"syscall:\w*:(?P<event>\w+):return{_REST}", "r:__x64_sys_{event}"),
    ("set_event", r"(?:-e\s+)?(?P<group>\w{2,})[:/](?P<event>[A-Za-z_]\w*)", "event"),
    ("perf", rf"(?:(?P<group>\w+):(?=\w+=))?(?:(?P<name>[A-Za-z_]\w*)=)?(?P<place>{_PLACE})(?:@[\w/.-]+)?"
     rf"(?P<line>:\d+)?(?P<back>%return)?(?P<rest>(?:\s+{_ARGUMENT})*)", "perf"),
)  # fmt: skip


class Meant:
    """The meaning of a line here: a definition or, of several, the first that the kernel has."""

    __slots__ = ("by", "definitions", "note")

    def __init__(self, by: str, definitions: tuple[str, ...], note: str = "") -> None:
        self.by = by
        self.definitions = definitions
        self.note = note

    def __str__(self) -> str:
        lines = " or, where the kernel has no t:, ".join(f"'{one}'" for one in self.definitions)
        said = f"that is {self.by}'s spelling; here it is {lines}" if self.by else f"write {lines}"
        return said + (f" ({self.note})" if self.note else "")


def meant(text: str) -> Meant | None:
    """Return the meaning of a line in another tool's spelling; None if no tool is recognised."""
    line = text.strip().strip("'\"").strip()
    whole = _COMMAND.fullmatch(line)
    if whole is not None:
        into = _INTO.match(whole[1][::-1])
        given = whole[1][: -into.end()] if into and into.end() < len(whole[1]) else whole[1]
        return _of_command(given.strip("'\""), "t" if re.search(r"\s-e\s", line[: whole.start(1)]) else "p")
    if "," in line and re.match(r"[pr]\d*:[\w/]+,", line):
        first = line.partition(";")[0]
        return Meant("the boot parameter", (first.replace(",", " "),), "words are separated by blanks")
    nearly = _nearly(line)
    if nearly is not None:
        return nearly
    for by, form, new in _FORMS:
        found = re.fullmatch(form, line, re.S)
        if found:
            words = {name: value or "" for name, value in found.groupdict().items()}
            words["rest"] = _arguments(words.get("rest", ""))
            return _made(by, new, words, line)
    return None


def _of_command(line: str, kind: str) -> Meant | None:
    if re.match(r"[pr]\s+\w|[prftue]\d*:(?!:)\S", line):
        return Meant("", (line,), "the definition alone")
    return meant(line) or (Meant("", (f"{kind}:{line}",)) if line.isidentifier() else None)


def _made(by: str, new: str, words: dict[str, str], line: str) -> Meant | None:
    if new == "event":
        return Meant(by, events(words["group"], words["event"]))
    if new == "file":
        return _in_file(words, line)
    if new == "perf":
        kind = "r" if words["back"] or re.search(r"\$retval\b", words["rest"]) else "p"
        if not any(words[part] for part in ("name", "back", "rest", "line")) and "+" not in words["place"]:
            return None  # a function's name: another message says that it isn't a definition
        note = "only perf probe knows lines of the source: this is where the function begins" if words["line"] else ""
        name = words["name"] or re.sub(r"\W.*", "", words["place"])
        group = f"{words['group']}/" if words["group"] else ""
        is_plain = not words["name"] and "+" not in words["place"]
        head = f"{kind}:{words['place']}" if is_plain else f"{kind}:{group}{name} {words['place']}"
        return Meant("perf probe", (f"{head}{words['rest']}",), note)
    return Meant(by, (new.format_map(words),))


def events(group: str, event: str) -> tuple[str, ...]:
    """Return definitions of a probe on an event: on its tracepoint, and an event probe, which system calls need."""
    by_event = f"e:{event} {group}.{event}"
    return (by_event,) if group == "syscalls" else (f"t:{event}", by_event)


def _arguments(rest: str) -> str:
    """Return the arguments after a probe point, each with a blank before it."""
    words = [word.rstrip(",;") for word in rest.split()]
    return "".join(f" {word}" for word in words if word)


def _in_file(words: dict[str, str], line: str) -> Meant:
    from .file_symbols import offset

    path, symbol, kind = words["path"], words["symbol"], "%return" if line.startswith(("uret", "ur:")) else ""
    name = symbol.partition("+")[0]
    number = offset(path, name)
    shown = f"{number:#x}" if number is not None else "OFFSET"
    if number is None:
        note = (
            f"find {name}'s OFFSET in the file with objdump -tT {path} and readelf -l {path}; the kernel knows no names"
        )
    else:
        note = f"{name}'s offset in the file here; the kernel doesn't know the names in programs"
    return Meant("" if line.startswith("u:") else "bpftrace", (f"u:{name} {path}:{shown}{kind}{words['rest']}",), note)


def _nearly(line: str) -> Meant | None:
    """Return the meaning of a definition with a small mistake in its head or probe point."""
    whole = len(line)
    while line.endswith(("\\n", "\\r"), 0, whole):
        whole -= 2
    if re.match(r"[pr]\d*:", line[:whole]) and (whole < len(line) or "`" in line):
        return Meant("", (line[:whole] if "`" not in line else line.replace("`", ""),))
    found = re.fullmatch(r"([pr])(\d*)=(\S+\s+\S.*)", line)
    found = found or re.fullmatch(r"([PR]|probe|ret(?:urn)?|[pr]\s+(?=:))(\d*)\s*:\s*((?!\w+=)\S.*)", line)
    if found:
        return Meant("", (f"{found[1][0].lower()}{found[2]}:{found[3]}",))
    found = re.fullmatch(r"p\d+(:.*)", line)
    if found:
        return Meant("", (f"p{found[1]}",), "only a return probe takes a number: r5:")
    found = re.fullmatch(rf"([pr]\d*:(?:[\w/]+\s+)?{_NAME})\([^()]*\)(.*)", line)
    if found:
        return Meant("", (f"{found[1]}{_arguments(found[2])}",), "a place has no parentheses")
    found = re.fullmatch(r"([pr]\d*):(\w+):(\w+)(\s+\S.*)", line)
    if found and not re.match(r"\s+[%$@+\-\\]|\s+\w+=", found[4]):
        return Meant("", (f"{found[1]}:{found[2]}/{found[3]}{found[4]}",), "a slash between group and event")
    found = re.fullmatch(r"([prfte]\d*:(?:[\w-]+/)?)(\S+)(\s+[A-Za-z_]\S*(?:\s.*)?)", line)
    if found and not found[2].isidentifier():
        clean = re.sub(r"\W", "_", found[2])
        clean = f"_{clean}" if clean[0].isdigit() else clean
        return Meant("", (f"{found[1]}{clean}{found[3]}",), "a name has letters, digits and _")
    return None
