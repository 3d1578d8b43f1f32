"""The causes of differences between kernels: the gates, and kernels in which some have other values.

Programs that compare kernels find this through the entry points kprobe.questions: rows, values and altered.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kprobe_sim.builds import profile
from kprobe_sim.builds.gates import GATES, filter_gates_of, gates_of
from kprobe_sim.builds.gates.question import ABSENT, Question
from kprobe_sim.kernel.activity import load
from kprobe_sim.kernel.backend import SimBackend
from kprobe_sim.kernel.simulated import SimulatedKernel
from kprobe_sim.named_tuple import NamedTuple


class ExplainedRow(NamedTuple):
    """A gate: where it is known from, the steps of its question, and which answer means what.

    Values are as in JSON; `steps` is empty for a gate that no question settles.
    """

    name: str
    source: str
    steps: tuple[str, ...]
    answers: tuple[tuple[Any, str], ...]  # (value, answer)


def rows() -> list[ExplainedRow]:
    """Return all gates in their order."""
    explained = []
    for name, gate in GATES.items():
        question = gate.question if isinstance(gate.question, Question) else Question((), "", {})
        answers = [(_plain(value), answer) for answer, value in question.values.items() if value is not ABSENT]
        explained.append(ExplainedRow(name, gate.source, question.steps, tuple(answers)))
    return explained


def values(kernel: str) -> dict[str, Any]:
    """Return the value of each gate for a simulated kernel: a series, a release, or the path of a profile.

    Raises ValueError for a kernel of which there is no profile.
    """
    build = profile.load(kernel)
    known = {**gates_of(build)._asdict(), **filter_gates_of(build)._asdict()}
    return {name: _plain(known[name]) for name in GATES}


def open_altered(kernel: str, answers: Mapping[str, Any]) -> SimBackend:
    """Open a kernel that differs from the recorded one in some gates, by name.

    Raises ValueError for a kernel of which there is no profile.
    """
    build = copy.copy(profile.load(kernel))  # values made once for each build are made anew for this one
    build.__dict__["answers"] = MappingProxyType({**build.answers, **answers})
    return SimBackend(SimulatedKernel(build), load("idle"), "idle")


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, (tuple, bytes)) else value
