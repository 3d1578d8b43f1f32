"""One finding of the doctor."""

from __future__ import annotations

from typing import NamedTuple

STOPS = "stops"  # nothing is traced, or recorded in that instance, until it is changed
NOTE = "note"  # it may surprise, or costs some events


class Fact(NamedTuple):
    """The evidence of a finding: a file or another source, and what it says."""

    source: str
    says: str

    def __str__(self) -> str:
        return f"{self.source}: {self.says}"


class Diagnosis(NamedTuple):
    """`check` names what was examined, `what` is one line, `helps` the command that changes it ("" if none does)."""

    level: str
    check: str
    what: str
    facts: tuple[Fact, ...]
    helps: str = ""
