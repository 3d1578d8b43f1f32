"""kprobe_profile and uprobe_profile: how often each probe was hit and missed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, overload

from kprobe_sim.events.event_table import EventTable


class Counted(Protocol):
    """A probe with a row in the file."""

    def profile(self) -> str:
        """Return the probe's row, without newline."""
        ...


class ProbeProfile(Sequence[bytes]):
    """The rows of all probes of a kind, each made when it is read.

    The version of `table` changes when a probe comes or goes.
    """

    def __init__(self, table: EventTable, probes: Callable[[], Iterable[Counted]]) -> None:
        self._table = table
        self._all = probes
        self._listed: tuple[int, Sequence[Counted]] = (-1, ())  # the probes at a version of the table

    def __len__(self) -> int:
        return len(self._probes())

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...

    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        found = self._probes()[index]
        return [_row(probe) for probe in found] if isinstance(found, Sequence) else _row(found)

    def _probes(self) -> Sequence[Counted]:
        if self._listed[0] != self._table.version:
            self._listed = (self._table.version, list(self._all()))
        return self._listed[1]


def _row(probe: Counted) -> bytes:
    return f"{probe.profile()}\n".encode("latin-1")
