"""The truth about the pages of a buffer, where it differs from the truth about their text.

No option changes a page.  A page has all fields of an event, addresses where the text has names, and the number of
events that were lost before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from kprobe_sim.events.event import StaticEvent
from kprobe_sim.events.instance import Instance
from kprobe_sim.events.options import TraceOptions
from kprobe_sim.kernel.simulated import SimulatedKernel
from kprobe_sim.machine.symbol_text import symbol_text
from kprobe_sim.probes.probe_event import Probe
from kprobe_sim.records.field import Field
from kprobe_sim.records.ring import RingEntry
from kprobe_sim.scenarios.truth import Truth, decoded

_PLAIN = TraceOptions({"context-info": True, "irq-info": True, "annotate": True})
_SIZES = (1, 2, 4, 8)  # of numbers


class PageTruth(Truth):
    """States what is true of an instance's entries, on pages that nobody has read from yet."""

    def __init__(self, kernel: SimulatedKernel, instance: Instance, probes: Sequence[Probe]) -> None:
        super().__init__(kernel, instance, probes)
        self._options = _PLAIN

    def records(self, entries: Sequence[RingEntry], *, of_pipe: bool = False) -> list[dict[str, Any]]:
        """Return what is true of each record, in order of time."""
        lost = {cpu.cpu: cpu.overrun for cpu in self._instance.buffer.cpus.values() if cpu.overrun}
        records: list[dict[str, Any]] = []
        for entry in _as_stored(entries):
            if entry.cpu in lost:
                records.append({"type": "lost", "cpu": entry.cpu, "count": lost.pop(entry.cpu)})
            record = self._record(entry)
            record.pop("ambiguous", None)  # nothing on a page can be mistaken
            records.append(record)
        return records

    def _frames(self, addresses: Sequence[int], *, user: bool) -> list[str]:
        return [f"{address:#x}" if user else self._location(address, True) for address in addresses]

    def _location(self, address: int, offset: bool) -> str:
        """Return a location by its symbol, even the trampoline of return probes."""
        return symbol_text(self._machine.symbols, address)

    def _static(self, event: StaticEvent, data: bytes) -> dict[str, Any]:
        values = ((field.name, _value(field, data)) for field in event.filter_fields())
        return {name: value for name, value in values if value is not None}


def _as_stored(entries: Sequence[RingEntry]) -> Iterator[RingEntry]:
    """Yield entries by time; a page stores time differences, so time never goes back on a CPU (rb_add_timestamp)."""
    stored: list[RingEntry] = []
    for _, of_cpu in groupby(sorted(entries, key=lambda entry: entry.cpu), lambda entry: entry.cpu):
        latest = 0
        for entry in of_cpu:
            latest = max(latest, entry.stamp)
            stored.append(entry._replace(stamp=latest))
    return iter(sorted(stored, key=lambda entry: entry.stamp))


def _value(field: Field, data: bytes) -> int | str | list[int] | None:
    """Return the value of a field; None if it is neither a number nor a text nor an array of numbers."""
    content = data[field.offset : field.offset + field.size]
    kind, bracket, length = field.type.partition("[")
    if kind.startswith("__data_loc "):
        number = int.from_bytes(content, "little")
        content = data[number & 0xFFFF :][: number >> 16]
        return decoded(content.partition(b"\0")[0]) if kind == "__data_loc char" else list(content)
    if kind == "char" and bracket:
        return decoded(content.partition(b"\0")[0])
    count = int(length.rstrip("]")) if bracket else 1
    size = field.size // count
    if size not in _SIZES:
        return None
    numbers = [int.from_bytes(content[i : i + size], "little", signed=field.signed) for i in range(0, field.size, size)]
    return numbers if bracket else numbers[0]
