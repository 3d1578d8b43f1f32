"""A probe as a call finds it: who wants its hits, and the context in which its handler runs."""

from __future__ import annotations

from kprobe_sim.events.event_file import EventFile
from kprobe_sim.machine.tracer_frames import Way
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.probes.probe_event import Probe


class HandlerContext(NamedTuple):
    """How the CPU got into the probe's handler, as common_flags and common_preempt_count show it."""

    flags: int
    preempt_count: int


class Armed(NamedTuple):
    """A probe that some instance wants, the files of its event there, and the function or instruction it is on."""

    probe: Probe
    is_return: bool
    files: tuple[EventFile, ...]
    context: HandlerContext
    address: int
    way: Way = Way.ALONE
