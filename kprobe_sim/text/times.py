"""The timestamps of many records, as the lines of a trace show them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cache

from kprobe_sim.records.columns import Part, column

MICROS = len("123456: ")

_SECOND, _MILLI, _HALF = 10**9, 10**6, 500  # ns; the last is half a microsecond
_MICROS_OF_SECOND = 10**6
_DENSE = 10**5  # ns: records this close together share their milliseconds


@cache
def _thousandths(shown: bytes) -> Sequence[bytes]:
    """Return the numbers from 0 to 999 in a format."""
    return tuple(shown % number for number in range(1000))


def times_of(stamps: Sequence[int], *, in_order: bool) -> Sequence[Part]:
    """Return timestamps in parts: the seconds, and the microseconds, which are `MICROS` bytes long.

    `in_order`: they never decrease.
    """
    first, last = (stamps[0], stamps[-1]) if in_order else (min(stamps), max(stamps))
    second = (first + _HALF) // _SECOND
    start = second * _SECOND - _HALF  # stamps from here on round up to it
    upper, lower = _thousandths(b"%03d"), _thousandths(b"%03d: ")
    if in_order and last < start + _SECOND and last - first < len(stamps) * _DENSE:
        return b" %5d." % second, *_by_milliseconds(stamps, start, upper, lower)
    micros = [(stamp - start) // 1000 for stamp in stamps]
    seconds: Part = b" %5d." % second
    if last >= start + _SECOND:
        seconds = column([micro // _MICROS_OF_SECOND for micro in micros], lambda more: b" %5d." % (second + more))
        micros = [micro % _MICROS_OF_SECOND for micro in micros]
    return seconds, [upper[micro // 1000] for micro in micros], [lower[micro % 1000] for micro in micros]


def _by_milliseconds(
    stamps: Sequence[int], start: int, upper: Sequence[bytes], lower: Sequence[bytes]
) -> tuple[Part, Part]:
    millis: list[bytes] = []
    micros: list[bytes] = []
    while len(micros) < len(stamps):
        milli = (stamps[len(micros)] - start) // _MILLI
        since = start + milli * _MILLI
        some = stamps[len(micros) : bisect_left(stamps, since + _MILLI, len(micros))]
        millis += [upper[milli]] * len(some)
        micros += [lower[(stamp - since) // 1000] for stamp in some]
    return millis, micros
