"""One step of a program on the simulated machine: it reaches an instruction of a file, and returns from there."""

from __future__ import annotations

from collections.abc import Mapping

from kprobe_sim.machine.task import Task
from kprobe_sim.named_tuple import NamedTuple

PROGRAM_BASE = 0x400000  # where linkers put a program that isn't position independent


class ProgramCall(NamedTuple):
    """The arguments of `SimulatedKernel.program_call`."""

    path: str
    offset: int
    task: Task
    args: tuple[int | str | bytes, ...] = ()
    returns: int | None = 0
    caller: int = 0
    registers: Mapping[str, int] = {}
    memory: Mapping[int, bytes] = {}
    base: int = PROGRAM_BASE
    cpu: int = 0
    at: int | None = None
    duration: int | None = None
    context: tuple[int, int] | None = None
