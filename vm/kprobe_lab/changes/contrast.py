"""Differing answers of two kernels: both perform each operation, and similar differences are grouped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kprobe_lab.changes.corpus import Probing, corpus, of_files
from kprobe_lab.changes.kernels import NamedSide
from kprobe_lab.changes.language import shell
from kprobe_lab.changes.reasons import RowChange, reasons, row_changes, values_of
from kprobe_lab.changes.response import Response, asked, changed_lines
from kprobe_vm.host.progress import Progress
from kprobe_vm.recording.functions import OPENING

# a field's declaration without its name and offset; other lines without what is printed
_FIELD = re.compile(r"^([^;f]{0,9}field:[^;]*?)\b\w++(?:\[\w*\])?;\toffset:\d+;(?:\tsize:\d+;)?(.*)")
_PRINTED = re.compile(r"(?<=print fmt: ).*")


class Contrast(NamedTuple):
    """An operation that two kernels answer differently, and the rows of the gate tables that the answers depend on."""

    section: str
    operation: str
    before: Response
    after: Response
    rows: tuple[str, ...] = ()

    def kind(self) -> tuple[object, ...]:
        """Return what similar differences share: their first row, or else the words that differ."""
        if self.rows:
            return self.rows[:1]
        refusals = [(one.errno, *(fault.message for fault in one.faults)) for one in (self.before, self.after)]
        for number, one in enumerate(refusals):
            if one[0] and one[1:] == () and one != refusals[1 - number]:
                return (self.section, number, one)  # one of them refuses without a message
        if refusals[0] != refusals[1]:
            return (self.section, *refusals)
        if self.operation.startswith("cat events/syscalls/"):
            return (self.section, "syscalls")
        lines = [line for line in changed_lines(self.before, self.after) if line[0] in "+-"]
        return (self.section, *dict.fromkeys(_FIELD.sub(r"\1\2", _PRINTED.sub("", line)) for line in lines))

    def weight(self) -> tuple[bool, int]:
        """Return a sort key that puts the clearest first: whether only one kernel accepts it, and how long it is."""
        return bool(self.before.errno) == bool(self.after.errno), len(self.operation)


class Alike(NamedTuple):
    """Differences of one kind, the clearest first, and the row that causes them, None if it isn't known."""

    contrasts: tuple[Contrast, ...]
    row: RowChange | None


class Comparison(NamedTuple):
    """The differences between two kernels, by release; the number of operations; the rows that none shows."""

    before: str
    after: str
    asked: int
    alike: tuple[Alike, ...]
    unseen: tuple[RowChange, ...]

    @property
    def differing(self) -> int:
        """Return how many operations get different answers."""
        return sum(len(group.contrasts) for group in self.alike)


def compared(before: NamedSide, after: NamedSide, progress: Progress) -> Comparison:
    """Perform all operations on two kernels, and group the differences."""
    tracefs = (before.side.tracefs, after.side.tracefs)
    sides = (before.side, after.side)
    opening = next((name for name in OPENING if all(side.takes_probe(name) for side in sides)), OPENING[0])
    probings = [*corpus(opening), *of_files(*tracefs)]
    progress(f"asking {before.release} and {after.release}: {len(probings)} operations")
    contrasts = [one for probing in probings if (one := _contrast(before, after, probing)) is not None]
    changes = row_changes(values_of(before), values_of(after), opening)
    contrasts = list(_with_rows(contrasts, before, after, changes, progress))
    seen = {row for contrast in contrasts for row in contrast[0].rows}
    unseen = tuple(change for change in changes if change.name not in seen)
    return Comparison(before.release, after.release, len(probings), tuple(_together(contrasts, changes)), unseen)


def _contrast(before: NamedSide, after: NamedSide, probing: Probing) -> tuple[Contrast, Probing] | None:
    answers = [asked(kernel.side, probing.steps) for kernel in (before, after)]
    if answers[0] == answers[1]:
        return None
    return Contrast(probing.section, shell(probing.steps), answers[0], answers[1]), probing


def _with_rows(
    contrasts: Sequence[tuple[Contrast, Probing]],
    before: NamedSide,
    after: NamedSide,
    changes: Sequence[RowChange],
    progress: Progress,
) -> Iterator[tuple[Contrast, Probing]]:
    pairs = [(contrast.before, contrast.after) for contrast, _ in contrasts]
    rows = reasons(before, after, changes, [probing.steps for _, probing in contrasts], pairs, progress)
    for (contrast, probing), names in zip(contrasts, rows, strict=True):
        yield contrast._replace(rows=tuple(names)), probing


def _together(contrasts: Sequence[tuple[Contrast, Probing]], changes: Sequence[RowChange]) -> Iterator[Alike]:
    """Group similar differences, in the order in which each kind first came."""
    kinds: dict[tuple[object, ...], list[Contrast]] = {}
    for contrast, _ in contrasts:
        kinds.setdefault(contrast.kind(), []).append(contrast)
    for group in kinds.values():
        group.sort(key=Contrast.weight)
        yield Alike(tuple(group), next((change for change in changes if change.name in group[0].rows[:1]), None))
