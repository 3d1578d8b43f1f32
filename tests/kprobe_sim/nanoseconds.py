"""The nanoseconds of records of which only microseconds were printed, rounded in several ways."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["in_order", "nanoseconds"]


def in_order(stamps: Sequence[int]) -> list[int]:
    """Return times in ns, in the order of these, in us."""
    times: list[int] = []
    for stamp in stamps:
        times.append(max(1000 * stamp, times[-1] + 1 if times else 0))
    return times


def nanoseconds(stamps: Sequence[int], elapsed: Sequence[int], gaps: Sequence[int]) -> tuple[int, list[int]]:
    """Return a start and rising times, in ns, of which all that was printed is true, in us rounded to the nearest.

    `stamps` are the times of records, `elapsed` those since the start, `gaps` those to the next record.  Each bounds a
    time or the distance of two neighbours: if any times fit, looking at neighbours forth and back finds them.  Raises
    ValueError where none do.
    """
    starts = [1000 * (at - since) for at, since in zip(stamps, elapsed, strict=True)]
    for start in range(max(starts) - 999, min(starts) + 1000):
        times = _times(
            [max(1000 * at, start + 1000 * since) - 500 for at, since in zip(stamps, elapsed, strict=True)],
            [min(1000 * at, start + 1000 * since) + 499 for at, since in zip(stamps, elapsed, strict=True)],
            [(max(1, 1000 * gap - 500), 1000 * gap + 499) for gap in gaps],
        )
        if times:
            return start, times
    raise ValueError("no times fit")


def _times(lows: list[int], highs: list[int], gaps: Sequence[tuple[int, int]]) -> list[int]:
    """Return times within these bounds, whose gaps are within theirs; none if there are none."""
    for number, (least, most) in enumerate(gaps, 1):
        lows[number] = max(lows[number], lows[number - 1] + least)
        highs[number] = min(highs[number], highs[number - 1] + most)
    if any(low > high for low, high in zip(lows, highs, strict=True)):
        return []
    times = [highs[-1]]
    for low, high, (least, most) in zip(lows[-2::-1], highs[-2::-1], gaps[::-1], strict=True):
        time = min(high, times[-1] - least)
        if time < max(low, times[-1] - most):
            return []
        times.append(time)
    return times[::-1]
