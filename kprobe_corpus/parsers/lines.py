"""A record of the truth -> the line of the text that holds it, for reports."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from kprobe_corpus.parsers.answers import Record

LONGEST = 300  # characters of a line that are shown


def line_of(text: bytes, truths: Sequence[Record], number: int) -> tuple[int, str]:
    """Return the number, from 1, of the line where a record begins, and the line; (0, "") if not found.

    The records before it are searched for as well, one after the other, as their lines may be alike.
    """
    lines = text.split(b"\n")
    at = found = 0
    for truth in truths[: number + 1]:
        marks = _marks(truth)
        found = next((place for place in range(at, len(lines)) if all(mark.search(lines[place]) for mark in marks)), -1)
        if found >= 0:
            at = found + 1
    if found < 0:
        return 0, ""
    return found + 1, lines[found].decode("utf-8", "backslashreplace")[:LONGEST]


def _marks(truth: Record) -> list[re.Pattern[bytes]]:
    """Return texts that a line has if such a record begins in it."""
    words = {"lost": r"LOST", "started": r"buffer started", "stack": r"<(?:user )?stack trace>|^ *=> |<-|: "}
    marks = [words[truth["type"]]] if truth["type"] in words else []
    stamp, clock = truth.get("timestamp"), truth.get("clock", "time")
    if truth["type"] in ("lost", "started"):
        marks.append(rf"CPU[: ]+{truth['cpu']}\b")
    elif isinstance(stamp, int):
        micros = stamp // 1000
        marks.append(
            {
                "time": rf"\b{micros // 10**6}\.{micros % 10**6:06d}",
                "elapsed": rf"\b{micros}|{micros // 1000}\.{micros % 1000:03d}ms",
            }.get(clock, rf"\b{stamp}\b")
        )
    if truth.get("name"):
        marks.append(rf"{re.escape(truth['name'])}:")
    return [re.compile(mark.encode("utf-8", "surrogateescape")) for mark in marks]
