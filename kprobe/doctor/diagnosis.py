"""One thing that the doctor found."""

from __future__ import annotations

from typing import NamedTuple

STOPS = "stops"  # nothing is traced, or recorded in that place, while it is so
NOTE = "note"  # it may surprise, or takes some events away


class Fact(NamedTuple):
    """What a finding rests on: a file or another source, and what it says."""

    source: str
    says: str

    def __str__(self) -> str:
        return f"{self.source}: {self.says}"


class Diagnosis(NamedTuple):
    """`check` names what was looked at, `what` is one line, `helps` the command that changes it ("" if none does)."""

    level: str
    check: str
    what: str
    facts: tuple[Fact, ...]
    helps: str = ""
