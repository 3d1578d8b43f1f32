"""Records in raw pages of kernels before 3.3, which have a fifth common field that the simulator's records lack.

Their formats show it (`events/event_format`; fixtures/text/3.2/*.formats): an int at byte 8, so that a first unsigned
long is at 16.  Records of static events and of function_graph already follow their formats.
"""

from __future__ import annotations

import struct

from kprobe_sim.events.event_table import EventTable
from kprobe_sim.probes.probe_event import ProbeEvent
from kprobe_sim.records.entry_type import TRACE_FN, TRACE_PRINT, TRACE_STACK

_COMMON = 8
_KIND = struct.Struct("<H")


def padded(events: EventTable, record: bytes) -> bytes:
    """Return a record with the padding that its kernel has."""
    (kind,) = _KIND.unpack_from(record)
    if kind in (TRACE_FN, TRACE_STACK, TRACE_PRINT):
        return record[:_COMMON] + bytes(8) + record[_COMMON:]
    event = events.by_id(kind)
    return event.padded(record) if isinstance(event, ProbeEvent) else record
