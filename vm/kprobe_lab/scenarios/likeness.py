"""Removes from two texts of one scenario what differs by nature, so that the rest can be compared byte by byte.

docs/reference/scenarios.md lists what that is.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_NEED_RESCHED = 0x02 | 0x04 | 0x20  # of common_flags, the lazy one among them


def _unhurried(match: re.Match[bytes]) -> bytes:
    return match[1] + b"%d" % (int(match[2]) & ~_NEED_RESCHED)


_ALIKE: tuple[tuple[re.Pattern[bytes], bytes | Callable[[re.Match[bytes]], bytes]], ...] = (
    # times: of a line, of latency-format with the mark of a pause, of verbose, of raw, hex and bin
    (re.compile(rb"(-\d+ +(?:\([ \d-]{7,}\) )?\[\d{3,}\] (?:[^ ]{4,5} )?) *\d+(?:\.\d{6})?: "), rb"\1TIME: "),
    (re.compile(rb"(-\d+ +\d+[^ ]{4,5} ) *-?\d+(?:us[ +!#*@$])?: "), rb"\1TIME: "),
    (
        re.compile(
            rb"( \d+ +\d+ \d+ [0-9a-f]{8} [0-9a-f]{8} )"
            rb"\[[0-9a-f]+\] -?\d+(?:\.\d{3}ms)? \(\+-?\d+(?:\.\d{3}ms)?\): "
        ),
        rb"\1TIME: ",
    ),
    (re.compile(rb"(?m)^(\d+ \d+ )\d+ (?=type: |# |\d+ \?)"), rb"\1TIME "),
    (re.compile(rb"(?m)^([0-9a-f]{8} [0-9a-f]{8} )[0-9a-f]{16} (?=type: )"), rb"\1TIME "),
    (re.compile(rb"(?s)([\0-\xff]{3}\0[\0-\xff]{3}\0)[\0-\xff]{8}(?=type: )"), rb"\1TIME"),
    # the id of an event, which depends on earlier events
    (re.compile(rb"(?<=type: )\d{3,}"), rb"ID"),
    # which CPU read the trace
    (re.compile(rb"(?m)^(# latency: .*CPU#)\d+"), rb"\1N"),
    # whether another task wants the CPU
    (re.compile(rb"(\[\d{3,}\] [.dDbX])[NnpBLbl]"), rb"\1."),
    (re.compile(rb"(-\d+ +\d+[.dDbX])[NnpBLbl](?=[^ ]{2,3} )"), rb"\1."),
    (re.compile(rb"( \d+ +\d+ )(\d+)(?= [0-9a-f]{8} [0-9a-f]{8} TIME: )"), _unhurried),
    # addresses of programs, and of ftrace's trampolines
    (re.compile(rb"(?m)^ =>  <[0-9a-f]{16}>$"), rb" =>  <USER>"),
    (re.compile(rb"(?m)^( => )(?:0x)?ffffffffc0[0-9a-f]{6}\b.*$"), rb"\1MADE CODE"),
    # the address of a record, which option fields shows for a char pointer since 6.16
    (re.compile(rb"(?<==)\(0x[0-9a-f]{16}\)"), rb"(ADDRESS)"),
    # the bytes after a raw mark are old contents of the buffer
    (re.compile(rb"(?m)(# [0-9a-f]+ buf:)((?: [0-9a-f]{2})+)$"), rb"\1 BYTES"),
)  # fmt: skip
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_STACK = re.compile(rb"(?m)(?:^ =>  <USER>\n)+")


def alike(text: bytes) -> bytes:
    """Return a text without what differs by nature."""
    for pattern, instead in _ALIKE:
        text = pattern.sub(instead, text)
    return _STACK.sub(b" =>  <USER>\n", text)


def difference(ours: bytes, theirs: bytes) -> str:
    """Say where two texts differ that should be alike; "" if they don't."""
    left, right = _LINE.findall(alike(ours)), _LINE.findall(alike(theirs))
    for number, (one, other) in enumerate(zip(left, right, strict=False), 1):
        if one != other:
            return f"line {number}: simulator {one!r}, guest {other!r}"
    if len(left) != len(right):
        return f"the simulator's text has {len(left)} lines, the guest's {len(right)}"
    return ""
