"""The causes of differences between kernels: rows of the gate tables, and kernels that answer some differently.

Programs that compare kernels find this through the entry points kprobe.questions: rows, values and altered.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kprobe_sim.builds import filter_gates, gate_rows, profile
from kprobe_sim.builds.filter_gates import filter_gates_of
from kprobe_sim.builds.gates import gates_of
from kprobe_sim.builds.questions.question import ABSENT
from kprobe_sim.builds.questions.table import QUESTIONS
from kprobe_sim.kernel.activity import load
from kprobe_sim.kernel.backend import SimBackend
from kprobe_sim.kernel.simulated import SimulatedKernel
from kprobe_sim.named_tuple import NamedTuple


class ExplainedRow(NamedTuple):
    """A row of the gate tables: where it is known from, the steps of its question, and which answer means what.

    Values are as JSON has them; `steps` is empty for a row that no question settles.
    """

    name: str
    source: str
    steps: tuple[str, ...]
    answers: tuple[tuple[Any, str], ...]  # (value, answer)


def rows() -> list[ExplainedRow]:
    """Return the rows of both tables in their order."""
    sources = {row.name: row.source for row in gate_rows.ROWS} | {row.gate: row.source for row in filter_gates.GATES}
    questions = {question.row: question for question in QUESTIONS}
    found = []
    for name, source in sources.items():
        question = questions.get(name)
        known = question.values.items() if question else ()
        answers = tuple((_plain(value), answer) for answer, value in known if value is not ABSENT)
        found.append(ExplainedRow(name, source, question.steps if question else (), answers))
    return found


def values(kernel: str) -> dict[str, Any]:
    """Return the value of each row for a simulated kernel: a series, a release, or the path of a profile.

    Raises ValueError for a kernel of which there is no profile.
    """
    build = profile.load(kernel)
    known = {**gates_of(build)._asdict(), **filter_gates_of(build)._asdict()}
    return {name: _plain(value) for name, value in known.items() if name != "version"}


def open_altered(kernel: str, answers: Mapping[str, Any]) -> SimBackend:
    """Open a kernel that differs from the recorded one in some rows, by name.

    Raises ValueError for a kernel of which there is no profile.
    """
    build = copy.copy(profile.load(kernel))  # what is made of a build once is made for this one anew
    build.__dict__["answers"] = MappingProxyType({**build.answers, **answers})
    return SimBackend(SimulatedKernel(build), load("idle"), "idle")


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, (tuple, bytes)) else value
