"""The open readers of an instance's buffer, and the settings that can't be changed while there are any.

Measured on 5.10, 6.1, 6.12 and 7.2: tests/conformance/test_open_readers.py.
"""

from __future__ import annotations

import errno

from kprobe_sim.language.primitives.refusal import refuse


class Readers:
    """The open readers of trace, trace_pipe and their like; None stands for all CPUs."""

    def __init__(self, *, only: bool = True) -> None:
        self._only = only  # a pipe is refused to a second reader
        self._pipes: set[int | None] = set()  # CPUs whose trace_pipe is open
        self._open_traces: list[int | None] = []  # CPUs whose trace is open
        self.consuming = 0  # how often trace_pipe, trace_pipe_raw or snapshot_raw is open
        self.stops = 0  # how often opening trace stopped recording (pause-on-trace)

    def open_pipe(self, cpu: int | None) -> None:
        """Claim the consuming read of one CPU or all; raise OSError EBUSY if somebody has it."""
        if self._only and (cpu in self._pipes or (self._pipes and (cpu is None or None in self._pipes))):
            raise refuse(errno.EBUSY)
        self._pipes.add(cpu)
        self.consuming += 1

    def close_pipe(self, cpu: int | None) -> None:
        """Give the consuming read back."""
        self._pipes.discard(cpu)
        self.consuming -= 1

    def open_trace(self, cpu: int | None) -> None:
        """Open the trace of one CPU or all."""
        self._open_traces.append(cpu)

    def close_trace(self, cpu: int | None) -> None:
        """Close it again."""
        self._open_traces.remove(cpu)

    def hold(self, cpu: int | None) -> bool:
        """Return True if an open trace keeps the buffer of a CPU (None: of any) from changing its size."""
        return bool(self._open_traces) if cpu is None else not {cpu, None}.isdisjoint(self._open_traces)
