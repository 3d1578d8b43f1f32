"""The rows of the simulator's gate tables that cause a difference, found by changing them one by one.

A kernel is simulated with one row as the other kernel has it: an answer that is then another depends on that row.  The
tables, and such kernels, are found through the entry points kprobe.questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kprobe_lab.changes.kernels import NamedSide
from kprobe_lab.changes.language import Step
from kprobe_lab.changes.response import Response, asked
from kprobe_lab.sides.side import Side, installed
from kprobe_vm.host.progress import Progress
from kprobe_vm.recording.functions import OPENING

__all__ = ["RowChange", "reasons", "row_changes", "values_of"]

GROUP = "kprobe.questions"


class RowChange(NamedTuple):
    """A row of the gate tables that two kernels have different values in.

    `steps` are those of its question, in the words of kprobe_sim/builds/gates, and `answers` what both said.
    """

    name: str
    source: str
    values: tuple[Any, Any]
    steps: tuple[str, ...]
    answers: tuple[str, str]


def row_changes(before: Mapping[str, Any], after: Mapping[str, Any], opening: str = OPENING[0]) -> list[RowChange]:
    """Return the rows in which the values of two kernels differ, and for which there is a question.

    `opening` is what <open> of a question is on these kernels.  A row that one of them hasn't counts as equal.
    """
    found = []
    for row in installed(GROUP, "rows")():
        if not row.steps or row.name not in before or row.name not in after:
            continue
        pair = (before[row.name], after[row.name])
        if pair[0] != pair[1]:
            said = tuple(next((answer for known, answer in row.answers if known == value), "") for value in pair)
            steps = tuple([step.replace("<open>", opening) for step in row.steps])
            found.append(RowChange(row.name, row.source, pair, steps, (said[0], said[1])))
    return found


def values_of(kernel: NamedSide) -> Mapping[str, Any]:
    """Return the values of all rows for a simulator; of a guest those that its answers to the questions give."""
    if kernel.is_simulated:
        found: Mapping[str, Any] = installed(GROUP, "values")(kernel.profile)
        return found
    side = kernel.side
    asked: Mapping[str, Any] = installed(GROUP, "sim")(side.tracefs, side.workload, kernel.version).values
    return asked


def reasons(
    before: NamedSide,
    after: NamedSide,
    changes: Sequence[RowChange],
    differing: Sequence[tuple[Step, ...]],
    answers: Sequence[tuple[Response, Response]],
    progress: Progress,
) -> list[list[str]]:
    """Return for each operation that is answered otherwise the rows that its answers depend on.

    Each row is changed on either side alone.  A build that can't be simulated has no such side.
    """
    found: list[list[str]] = [[] for _ in differing]
    for change in changes:
        progress(f"which answers depend on {change.name}")
        for number, kernel in enumerate((before, after)):
            try:
                other = _Altered(kernel, {change.name: change.values[1 - number]})
            except ValueError:  # there is no simulator of that guest
                continue
            for place, (steps, pair) in enumerate(zip(differing, answers, strict=True)):
                if change.name not in found[place] and other.answer(steps) != pair[number]:
                    found[place].append(change.name)
            other.side.close()
    return found


class _Altered:
    """The simulator of a kernel with a row as it isn't; raise `ValueError` if there is no such simulator."""

    def __init__(self, kernel: NamedSide, answers: Mapping[str, Any]) -> None:
        self.side = Side(installed(GROUP, "altered")(kernel.profile, answers))

    def answer(self, steps: tuple[Step, ...]) -> Response:
        """Return what it answers."""
        try:
            return asked(self.side, steps)
        except Exception:  # no kernel is like that: what the row leads to lacks what the build recorded for it
            self.side.reset()
            return Response("fault")
