"""The rules that differ between kernels: a version and recorded answers come in, the value of each gate comes out.

This is the only place where a version is compared.  To add a rule:

1. Declare the gate in the module of its subject: its values by version, the source that shows them, its question
   (`question` has the language).  `gate` has the forms of a declaration; a rule that no question settles says why.
2. Read it in the simulator as `kernel.machine.gates.NAME`, or `filter_gates.NAME` for one of `filters`.
3. Explain it on its page of docs/kernel, by name.
4. Ask a real kernel: `kprobe-vm test 6.1 -- tests/conformance/test_questions.py`; and store what the recorded kernels
   answer in their profiles: `kprobe-vm record --answers 6.1 kprobe_sim/builds/profiles`.

In a source 'definitions 6.1' is fixtures/definitions/6.1.jsonl, 'kinds 6.1' fixtures/kinds/6.1.jsonl, and likewise
'triggers'; 'recorded traces' are in fixtures/traces and fixtures/text, and tests/differential/found keeps what a
'campaign' found.  There are no packages of kernels before 5.10: where a source names a function or a file of one, it
was read there.  Between two recorded series a threshold is that of a change log, or else the newer series.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Protocol

from kprobe_sim.builds.gates.arguments import ArgumentGates
from kprobe_sim.builds.gates.definitions import DefinitionGates
from kprobe_sim.builds.gates.files import FileGates
from kprobe_sim.builds.gates.filters import FilterGates
from kprobe_sim.builds.gates.gate import AnyGates, Gate, GateValues, Version, record
from kprobe_sim.builds.gates.kinds import KindGates
from kprobe_sim.builds.gates.old_definitions import OldDefinitionGates
from kprobe_sim.builds.gates.text import TextGates
from kprobe_sim.builds.gates.triggers import TriggerGates

__all__ = [
    "GATES",
    "FilterGates",
    "Gate",
    "Gates",
    "Version",
    "filter_gates",
    "filter_gates_of",
    "gates_for",
    "gates_of",
    "like",
]


class Build(Protocol):
    """What decides the gates of one kernel build: its version, and its answers to the questions."""

    @property
    def number(self) -> Version: ...
    @property
    def answers(self) -> Mapping[str, Any]: ...


@record
class Gates(
    DefinitionGates, ArgumentGates, TextGates, FileGates, KindGates, TriggerGates, OldDefinitionGates, GateValues
):
    """The values of one kernel's gates, except those of its filters."""


GATES: Mapping[str, Gate] = {
    **Gates.declared,
    **FilterGates.declared,
}  # each by its name, in the order in which the questions are asked


@lru_cache(maxsize=64)
def gates_for(version: Version) -> Gates:
    """Return the gates of a kernel version, as (6, 1, 190)."""
    return Gates(**{name: gate.value(version) for name, gate in Gates.declared.items()})


@lru_cache(maxsize=64)
def gates_of(build: Build) -> Gates:
    """Return the gates of a build: what it answered, and the rest by its version."""
    return _answered(gates_for(build.number), build.answers)


@lru_cache(maxsize=64)
def filter_gates(version: Version) -> FilterGates:
    """Return what the filters of a kernel version, as (6, 1, 190), can do."""
    return FilterGates(**{name: gate.value(version) for name, gate in FilterGates.declared.items()})


@lru_cache(maxsize=64)
def filter_gates_of(build: Build) -> FilterGates:
    """Return what the filters of a build can do: what it answered, and the rest by its version."""
    return _answered(filter_gates(build.number), build.answers)


def like(answer: Any, value: Any) -> Any:
    """Return an answer from JSON in the type of another value of its gate."""
    return type(value)(answer) if isinstance(value, (tuple, bytes)) else answer


def _answered(values: AnyGates, answers: Mapping[str, Any]) -> AnyGates:
    known = values._asdict()
    return values._replace(**{name: like(answer, known[name]) for name, answer in answers.items() if name in known})
