"""Strings without quotes around them: how many lines their event takes.

Only a string holds a newline, such as a task's name.  What follows it shows that the record goes on: an argument that
the event's format has still to come, or, without a format, any argument soon after text that isn't a number.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

_NAME: Final = re.compile(rb"\b([A-Za-z_]\w{0,63})=")
_VALUE: Final = re.compile(rb"0x[0-9a-f]{1,16}|(?=[a-f]*\d)[0-9a-f]{1,16}|-?\d{1,20}")
# what follows a name that has a newline in it, up to the next argument: no task's name is longer
_FURTHER: Final = re.compile(rb"[^\n]{0,15} ([A-Za-z_]\w*)=")
_NAME_LENGTH: Final = 15
# What stands after a trace where people keep it: ^C, a prompt, marks for what was left out (grep's --), tags of a page.
_FOREIGN: Final = re.compile(
    rb"\^C.*|--|\[?\.\.\.\]?|```.*|[^\s$#%]{0,64}[$#%](?: .*)?|[ \t]{0,64}</?[a-zA-Z][^<>]{0,256}>[ \t]{0,64}\r?"
)


def is_over(shown: Mapping[str, bool] | None, first: bytes) -> bool:
    """Say whether an event has only its first line, whatever follows."""
    if shown is None:
        return not _goes_on(_last_value(first))
    if not any(shown.values()):
        return True
    names = _names(shown, first)
    return len(set(names)) == len(shown) and not shown[names[-1]]


def lines_taken(shown: Mapping[str, bool] | None, first: bytes, others: Sequence[bytes]) -> int:
    """Say how many of the lines after an event's first are its own.

    ``shown`` are the arguments that its format names, and whether each is a string; None if there is no format.
    """
    if is_over(shown, first):
        return 0
    return _unknown(first, others) if shown is None else _known(shown, first, others)


def mark_lines(others: Sequence[bytes]) -> int:
    """Say how many of the lines after a mark's first are its own: those before one that is clearly another's."""
    return next((number for number, line in enumerate(others) if _FOREIGN.fullmatch(line) is not None), len(others))


def is_foreign(line: bytes) -> bool:
    """Say whether a line is what people keep around a trace, or nothing."""
    return not line.strip(b"\r\n") or _FOREIGN.fullmatch(line.removesuffix(b"\n")) is not None


def _names(shown: Mapping[str, bool], line: bytes) -> list[str]:
    return [name for name in map(bytes.decode, _NAME.findall(line)) if name in shown]


def _known(shown: Mapping[str, bool], first: bytes, others: Sequence[bytes]) -> int:
    missing, last = set(shown), ""
    for taken, line in enumerate((first, *others)):
        names = _names(shown, line)
        missing.difference_update(names)
        last = names[-1] if names else last
        if not missing and last:
            return len(others) if shown[last] else taken
    # it has lost an argument, so what follows its last string belongs to that string
    names = _names(shown, first)
    return len(others) if names and shown[names[-1]] else 0


def _last_value(line: bytes) -> bytes:
    return line.rpartition(b"=")[2] if _NAME.search(line) is not None else b""


def _goes_on(value: bytes) -> bool:
    return 0 < len(value) <= _NAME_LENGTH and _VALUE.fullmatch(value.strip()) is None


def _unknown(first: bytes, others: Sequence[bytes]) -> int:
    taken, names, value = 0, set(_NAME.findall(first)), _last_value(first)
    for number, line in enumerate(others, 1):
        if not _goes_on(value):
            break
        further = _FURTHER.match(line)
        if further is None or further[1] in names:
            value += b"\n" + line
        else:
            taken, value = number, _last_value(line)
            names.update(_NAME.findall(line))
    return taken
