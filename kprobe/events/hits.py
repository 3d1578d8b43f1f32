"""How often each probe was hit and missed, from kprobe_profile and uprobe_profile.

Their rows name no group, but are in the order of kprobe_events and uprobe_events, as one list is behind both.
Source: kernel 6.12, probes_profile_seq_show() in trace_kprobe.c and in trace_uprobe.c.
"""

from __future__ import annotations

from collections.abc import Callable

from kprobe.kernel.listing import Line, read_lines

FILES = {"kprobe_events": "kprobe_profile", "uprobe_events": "uprobe_profile"}
TRIES = 3


class Hits:
    """A probe's counts in a profile; `missed` is None for a uprobe, whose profile doesn't count misses."""

    __slots__ = ("count", "missed")

    def __init__(self, count: int, missed: int | None) -> None:
        self.count = count
        self.missed = missed


def profiled(read: Callable[[str], bytes | None], file: str) -> tuple[list[Line], list[Hits] | None]:
    """Return the lines of kprobe_events or uprobe_events, each with its counts.

    `read` returns None for a file that can't be read.  The counts are None without a profile, or if it keeps showing
    other probes than the list.
    """
    lines: list[Line] = []
    for _ in range(TRIES):
        data = read(file)
        if not data:
            return [], []
        lines = read_lines(data)
        profile = read(FILES[file])
        if profile is None:
            return lines, None
        rows = [_row(text, file) for text in profile.decode(errors="surrogateescape").splitlines() if text.strip()]
        if [row[0] for row in rows if row is not None] == [line.event.rpartition("/")[2] for line in lines]:
            return lines, [row[1] for row in rows if row is not None]
    return lines, None


def _row(text: str, file: str) -> tuple[str, Hits] | None:
    """Return name and counts of a row; None if it isn't understood."""
    words = text.split()
    if file == "kprobe_events":
        if len(words) == 3 and words[1].isdigit() and words[2].isdigit():
            return words[0], Hits(int(words[1]), int(words[2]))
    elif len(words) > 2 and words[-1].isdigit():  # a path before them, which may have blanks
        return words[-2], Hits(int(words[-1]), None)
    return None
