"""The side that a simulator is compared with: a guest with the same build, or another simulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from kprobe_lab.operations.backends import open_simulator
from kprobe_lab.operations.side import Side
from kprobe_lab.operations.symbols import Symbols


def release_of(kernel: str) -> str:
    """Return the release of the build that a kernel's simulator simulates; raise `ValueError` if there is none."""
    with closing(open_simulator(kernel)) as tracefs:
        return tracefs.kernel.release


def rows_of(kernel: str) -> Mapping[str, Any]:
    """Return the rows of the gate tables for a kernel's simulator, by name."""
    from kprobe_sim.builds.questions.explained import values

    return values(kernel)


def simulated(spec: str) -> Side:
    """Open a simulator ("sim:6.1") as a side."""
    from kprobe_sim.kernel.workload import open_workload

    tracefs = open_simulator(spec.removeprefix("sim:"))
    return Side(tracefs, open_workload(tracefs))


class Reference:
    """A side and the symbols of its kernel; a side that goes down is replaced by another like it.

    `spec` is a guest's kernel ("6.1.0-54-cloud-amd64", a series, a path), or "sim:KERNEL" for a simulator.
    """

    def __init__(self, spec: str, progress: Callable[[str], None] = lambda line: None) -> None:
        self._spec = spec
        self._progress = progress
        self.side, self.symbols = self._opened()

    def replace(self) -> None:
        """Close the side, and open another."""
        self.side.close()
        self.side, self.symbols = self._opened()

    def close(self) -> None:
        """Let go of the backend; a guest ends."""
        self.side.close()

    def _opened(self) -> tuple[Side, Symbols]:
        if not self._spec.startswith("sim:"):
            from kprobe_lab.operations.quiet import quiet_guest  # needs the extra [vm], which other verbs don't

            return quiet_guest(self._spec, progress=self._progress)
        side = simulated(self._spec)
        return side, Symbols.read(side.tracefs.kernel.symbols.kallsyms())
