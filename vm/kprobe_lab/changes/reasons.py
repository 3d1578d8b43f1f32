"""The rows of the simulator's gate tables that cause a difference, found by changing them one by one.

A kernel is simulated with one row as the other kernel has it: an answer that changes with it depends on that row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kprobe_lab.changes.kernels import NamedSide
from kprobe_lab.changes.language import Step
from kprobe_lab.changes.response import Response, asked
from kprobe_lab.operations.reference import rows_of
from kprobe_lab.operations.side import Side
from kprobe_vm.host.progress import Progress
from kprobe_vm.recording.functions import OPENING


class RowChange(NamedTuple):
    """A row of the gate tables in which two kernels have different values.

    `steps` are those of its question, in the language of kprobe_sim/builds/gates, and `answers` are both kernels' own.
    """

    name: str
    source: str
    values: tuple[Any, Any]
    steps: tuple[str, ...]
    answers: tuple[str, str]


def row_changes(before: Mapping[str, Any], after: Mapping[str, Any], opening: str = OPENING[0]) -> list[RowChange]:
    """Return the rows in which the values of two kernels differ, and for which there is a question.

    `opening` is the function that <open> of a question names on these kernels.  A row that one of them lacks counts as
    equal.
    """
    from kprobe_sim.builds.questions.explained import rows

    changes = []
    for row in rows():
        if not row.steps or row.name not in before or row.name not in after:
            continue
        pair = (before[row.name], after[row.name])
        if pair[0] != pair[1]:
            given = tuple(next((answer for known, answer in row.answers if known == value), "") for value in pair)
            steps = tuple([step.replace("<open>", opening) for step in row.steps])
            changes.append(RowChange(row.name, row.source, pair, steps, (given[0], given[1])))
    return changes


def values_of(kernel: NamedSide) -> Mapping[str, Any]:
    """Return the values of all rows: a simulator's own, or those that a guest's answers to the questions give."""
    if kernel.is_simulated:
        return rows_of(kernel.profile)
    from kprobe_sim.builds.questions.answers import ask

    return ask(kernel.side.tracefs, kernel.side.workload, kernel.version).values


def reasons(
    before: NamedSide,
    after: NamedSide,
    changes: Sequence[RowChange],
    differing: Sequence[tuple[Step, ...]],
    answers: Sequence[tuple[Response, Response]],
    progress: Progress,
) -> list[list[str]]:
    """Return for each operation with different answers the rows that the answers depend on.

    Each row is changed on one side at a time.  A build that can't be simulated is left out.
    """
    rows: list[list[str]] = [[] for _ in differing]
    for change in changes:
        progress(f"which answers depend on {change.name}")
        for number, kernel in enumerate((before, after)):
            try:
                other = _Altered(kernel, {change.name: change.values[1 - number]})
            except ValueError:  # there is no simulator of that guest
                continue
            for index, (steps, pair) in enumerate(zip(differing, answers, strict=True)):
                if change.name not in rows[index] and other.answer(steps) != pair[number]:
                    rows[index].append(change.name)
            other.side.close()
    return rows


class _Altered:
    """The simulator of a kernel with one row changed; raise `ValueError` if there is no such simulator."""

    def __init__(self, kernel: NamedSide, answers: Mapping[str, Any]) -> None:
        from kprobe_sim.builds.questions.explained import open_altered

        self.side = Side(open_altered(kernel.profile, answers))

    def answer(self, steps: tuple[Step, ...]) -> Response:
        """Return what it answers."""
        try:
            return asked(self.side, steps)
        except Exception:  # no kernel is like that: the changed row may need facts that the build's recording lacks
            self.side.reset()
            return Response("fault")
