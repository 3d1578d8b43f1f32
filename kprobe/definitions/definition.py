"""The text of a probe as users write it, and the probe that it means.

The language is that of the kernel's kprobe_events, uprobe_events and dynamic_events, plus the shorthand of perf-tools:
the name may be left out, and the probe is then called after its function::

    p:do_sys_open                       p:do_sys_open do_sys_open
    r:do_sys_open $retval               r:do_sys_open do_sys_open $retval
    p:myopen do_sys_open mode=%cx:u16   as it stands
    u:/bin/bash:0x1234%return           r:p_bash_0x1234 /bin/bash:0x1234 in uprobe_events

This module knows what the user means.  The kernel decides what it accepts: fetch arguments are passed on unchanged, and
so are offsets and maxactive numbers outside any kernel's range.
"""

from __future__ import annotations

from kprobe.errors import DefinitionError

from .probe import NAME_MAX, RETURN, Place, Probe
from .probe_points import BLANKS, is_file, number, place

__all__ = ["Place", "Probe", "parse"]

KINDS = "prfteu"
TYPES = frozenset(
    [
        "string",
        "ustring",
        "symbol",
        "symstr",
        "char",
        *(sign + bits for sign in "sux" for bits in ("8", "16", "32", "64")),
    ]
)
START = "a probe starts with p: or r:, f:, t:, e: or u:"
NO_NAME = "a name begins with a letter or _, and holds letters, digits and _"
OTHERS = {"-": "and what kprobe adds it removes itself"} | dict.fromkeys(KINDS.upper(), "in lower case")


def _words(text: str) -> list[tuple[int, str]]:
    """Return the words of a definition with their columns; there is at least one."""
    for bad, what in (("\n", "a newline: give one probe"), ("\0", "a NUL character")):
        if bad in text.rstrip(BLANKS):
            raise DefinitionError(f"the definition holds {what}", text, text.index(bad))
    words = _split(text)
    if not words:
        raise DefinitionError("the definition is empty", text, 0)
    return words


def _group_and_place(text: str, column: int, event: str) -> tuple[str, str]:
    """Take [GROUP/]PROBE_POINT apart, which stands where an event could: the shorthand."""
    group, slash, place = event.rpartition("/")
    if slash and not place:
        raise DefinitionError("a place is missing: which function?", text, len(text.rstrip(BLANKS)))
    if slash and not _is_name(group, "-"):
        raise DefinitionError("this is neither [GROUP/]EVENT nor a place", text, column)
    return group, place


def parse(text: str) -> Probe:
    """Return the probe that `text` means; raise `DefinitionError` with the column of the mistake.

    A line in another tool's spelling is refused, with its meaning here.
    """
    try:
        return _parsed(text)
    except DefinitionError as error:
        from .foreign import meant

        other = meant(text)
        if other is None:
            raise
        raise DefinitionError(error.message, text, error.column, str(other)) from None


def _parsed(text: str) -> Probe:
    words = _words(text)
    start, head = words[0]
    kind, maxactive, column, event = _head(text, start, head)
    rest = words[1:]
    group = name = ""
    is_short = False
    if event and rest and _is_event(event) and not _is_argument(kind, rest[0][1]):
        group, name = _event(text, column, event)
    elif event:
        is_short = True
        where = event
        if kind != "e" and not _begins_file(kind, event):
            group, where = _group_and_place(text, column, event)
            if len(rest) > 0 and not _is_argument(kind, rest[0][1]) and ":" not in event:
                _no_name(text, column, event)
        rest = [(column + len(event) - len(where), where), *rest]
    if not rest:
        raise DefinitionError("a place is missing: which function?", text, len(text.rstrip(BLANKS)))
    place_column, place_text = rest[0]
    found = place(kind, text, place_column, place_text)
    if maxactive is not None and found.path:
        raise DefinitionError("maxactive is for return probes of the kernel's functions only", text, start + 1)
    args = tuple(word for _, word in rest[1:])
    if found.path:
        kind = "u"
    is_named = bool(name)
    return Probe(kind, name or _generated(kind, found, is_short), found, args, group, maxactive, is_named)


def _begins_file(kind: str, event: str) -> bool:
    """True if the word where an event could stand is a probe point in a file."""
    return is_file(kind, event) and (kind == "u" or event[0] in "/." or event.rpartition(":")[2][:1].isdigit())


def _head(text: str, start: int, head: str) -> tuple[str, int | None, int, str]:
    """Split "r10:grp/name" into kind, maxactive, the column of the event and the event."""
    kind, colon, event = head[0], head.find(":"), ""
    digits = head[1:]
    if colon >= 0:
        digits, event = head[1:colon], head[colon + 1 :]
    if kind not in KINDS or (kind not in ("p", "r") and colon < 0):
        other = OTHERS.get(kind, "") if colon == 1 else ""
        raise DefinitionError(f"{START}, {other}" if other else START, text, start)
    if not digits:
        return kind, None, start + colon + 1, event
    value = number(digits)
    if value is None or digits[0] in "+-":
        raise DefinitionError("a probe starts with p: or r: or rN:, N a number", text, start + 1)
    if kind not in ("r", "f"):
        raise DefinitionError("maxactive is for return probes (r) only", text, start + 1)
    return kind, value, start + colon + 1, event


def _is_event(text: str) -> bool:
    """True if `text` can be [GROUP/]EVENT, GROUP/ or GROUP.EVENT."""
    group, name = _halves(text)
    return (not group or _is_name(group, "-")) and (_is_name(name) or (bool(group) and not name))


def _halves(text: str) -> tuple[str, str]:
    """Split at the first slash, else at the first dot, as kernels do from 6.0."""
    for mark in "/.":
        group, found, name = text.partition(mark)
        if found:
            return group, name
    return "", text


def _event(text: str, column: int, event: str) -> tuple[str, str]:
    group, name = _halves(event)
    for part, where in ((group, column), (name, column + len(event) - len(name))):
        if len(part) > NAME_MAX:
            raise DefinitionError(f"a group or event name has at most {NAME_MAX} characters", text, where)
    return group, name


def _no_name(text: str, column: int, event: str) -> None:
    """Raise if the word before a probe point is neither an event's name nor itself a probe point with an offset."""
    at = min((event.find(mark) for mark in "+-" if mark in event), default=len(event))
    if number(event[at:]) is None and not (at == len(event) and event[0].isdigit() and number(event) is not None):
        bad = next((index for index, char in enumerate(event) if not _is_name("a" + char)), 0)
        raise DefinitionError(NO_NAME, text, column + bad)


def _is_name(text: str, extra: str = "") -> bool:
    """True for a C identifier; `extra` characters may stand anywhere."""
    plain = text.translate({ord(mark): "_" for mark in extra})
    return plain.isascii() and plain.isidentifier()


def _is_argument(kind: str, word: str) -> bool:
    """True if the word after the head is a fetch argument or an event probe's filter, so no probe point."""
    if kind == "e" and word == "if":
        return True
    name, _, type_ = word.partition(":")
    if type_.partition("[")[0] in TYPES and _is_name(name):  # NAME:TYPE, the name of a parameter
        return True
    if is_file(kind, word) and word[0] in "/.":
        return False
    if word.endswith(RETURN) and not any(mark in word for mark in "=$(@"):
        return False
    return word[0] in "@+-\\" or any(mark in word for mark in "=%$>")


def _generated(kind: str, place: Place, short: bool) -> str:
    """Name a probe that the user didn't name.

    perf-tools' shorthand uses the function's own name, as do tracepoints and events; where that isn't possible, and for
    `p SYM`, the name is the kernel's: p_SYM_OFFSET, with "_" for what a name can't hold.
    """
    if place.path:
        name = f"p_{place.path.rpartition('/')[2]}_{place.offset:#x}"
    elif kind == "e":
        name = place.symbol.partition(".")[2]
    elif place.address is not None:
        name = f"{kind}_{place.address:#x}"
    elif place.is_pattern:
        name = "".join(char for char in place.symbol if char.isalnum() or char == "_").strip("_") or "all"
    elif kind == "t" or (short and not place.offset):
        name = place.symbol
    else:
        full = f"{place.module}:{place.symbol}" if place.module else place.symbol
        name = f"{kind}_{full}_{place.offset}"
    clean = "".join(char if char.isascii() and (char.isalnum() or char == "_") else "_" for char in name)
    return (f"{kind}_{clean}" if clean[0].isdigit() else clean)[:NAME_MAX]


def _split(text: str) -> list[tuple[int, str]]:
    """Split at the kernel's blanks; each word with its column."""
    words: list[tuple[int, str]] = []
    start = -1
    for column, char in enumerate(text + " "):
        if char in BLANKS:
            if start >= 0:
                words.append((start, text[start:column]))
            start = -1
        elif start < 0:
            start = column
    return words
