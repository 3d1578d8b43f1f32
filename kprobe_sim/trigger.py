"""Triggers of an event: what happens when it is hit (struct event_trigger_data).

A trigger acts on the instance whose `trigger` file it was written to.  Sources: kernel/trace/trace_events_trigger.c of
6.1; fixtures/triggers.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from kprobe_sim.kstrto import LONG_MAX, ULONG_MAX

if TYPE_CHECKING:
    from kprobe_sim.event_file import EventFile
    from kprobe_sim.hist_data import HistData
    from kprobe_sim.instance import Instance
    from kprobe_sim.predicate import Predicate

UNLIMITED = ULONG_MAX  # -1 as the kernel counts
_HEAD = struct.Struct("<HBBi")


class Hit(NamedTuple):
    """One hit of an event, as triggers see it."""

    cpu: int
    comm: bytes
    head: bytes  # of the event's record: type, flags, preempt count, pid
    frames: Sequence[int]  # return addresses, the tracer's own first
    at: int | None  # when, in ns of the machine's time; None: now
    in_nmi: bool = False
    held: bool = False  # the record is made aside, with preemption off once more, until it's known whether it stays


class Trigger:
    """A trigger of one event in one instance.

    `count` is how often it may still act, None where none was given: then it isn't counted at all.
    """

    needs_record: ClassVar[bool] = False  # looks into the record
    group: ClassVar[str]  # an event can have one trigger of each group (and target)
    follows_record: ClassVar[bool] = False  # acts once the event's own record is written
    paused = False
    data: HistData | None = None  # what it counts into

    def __init__(self, file: EventFile, name: str, count: int | None) -> None:
        self.file = file
        self.name = name
        self.count = count
        self.filter: Predicate | None = None
        self.filter_text = ""
        self.target: EventFile | None = None

    @property
    def head(self) -> str:
        """The trigger as the file shows it, up to the count."""
        return self.name

    def line(self) -> str:
        """Return the trigger as its file lists it, without newline."""
        count = UNLIMITED if self.count is None else self.count
        signed = count - (1 << 64) if count > LONG_MAX else count
        text = f"{self.head}:unlimited" if count == UNLIMITED else f"{self.head}:count={signed}"
        return f"{text} if {self.filter_text}" if self.filter_text else text

    def is_rival(self, other: Trigger) -> bool:
        """True if an event can't have both."""
        return self.group == other.group and self.target is other.target

    def wants(self, record: bytes, hit: Hit) -> bool:
        """True unless its filter refuses the record."""
        return self.filter is None or self.filter.match(record, cpu=hit.cpu, comm=hit.comm)

    def end(self) -> None:
        """Let go of what the trigger held; it is gone."""

    def prepare(self) -> None:
        """Do what the trigger needs before it is looked whether it may be there."""

    def fire(self, hit: Hit, record: bytes) -> None:
        """Act, if the count allows."""
        if self.count == 0 or (self.count is not None and self.is_idle()):
            return
        if self.count is not None and self.count != UNLIMITED:
            self.count -= 1
        self.act(hit)

    def is_idle(self) -> bool:
        """True when acting would change nothing: then it doesn't count."""
        return False

    def act(self, hit: Hit) -> None:
        raise NotImplementedError

    @property
    def instance(self) -> Instance:
        return self.file.instance


class TraceOn(Trigger):
    """traceon."""

    group = "trace on or off"

    def is_idle(self) -> bool:
        return self.instance.tracing_on

    def act(self, hit: Hit) -> None:
        self.instance.set_tracing(True)


class TraceOff(Trigger):
    """traceoff: the event's own record is still written."""

    group = "trace on or off"
    follows_record = True

    def is_idle(self) -> bool:
        return not self.instance.tracing_on

    def act(self, hit: Hit) -> None:
        if self.instance.tracing_on:
            self.instance.set_tracing(False)


class Snapshot(Trigger):
    """snapshot: swap the buffer with the spare one."""

    group = "snapshot"

    def prepare(self) -> None:
        self.instance.allocate_snapshot()

    def act(self, hit: Hit) -> None:
        instance = self.instance
        if hit.in_nmi:
            self._complain(hit, "*** SNAPSHOT CALLED FROM NMI CONTEXT ***", "*** snapshot is being ignored        ***")
        elif not instance.has_snapshot:
            self._complain(hit, "*** SNAPSHOT NOT ALLOCATED ***", "*** stopping trace here!   ***")
            instance.set_tracing(False)
        else:
            instance.swap_snapshot()

    def _complain(self, hit: Hit, *lines: str) -> None:
        """Say in the trace what is wrong, in the context of the tracer itself.

        That has preemption off, which records of events leave out of account, and in an NMI interrupts too.  Source:
        tracing_gen_ctx(); conformance suite on 5.10, 6.1 and 7.3.
        """
        kernel = self.instance.kernel
        found = kernel.symbols.lookup("tracing_snapshot_instance_cond")
        kind, flags, depth, pid = _HEAD.unpack_from(hit.head)
        depth += (1 + hit.held) * kernel.profile.preemption
        head = _HEAD.pack(kind, flags | hit.in_nmi, depth & 0xFF, pid)
        for line in lines:
            self.instance.print(hit.cpu, found[0].address if found else 0, f"{line}\n".encode(), head, hit.at)


class StackTrace(Trigger):
    """stacktrace: the kernel stack as an entry of its own."""

    group = "stacktrace"
    follows_record = True

    def act(self, hit: Hit) -> None:
        self.instance.write_stack(hit.cpu, hit.head, hit.frames, hit.at)


class Switch(Trigger):
    """enable_event and disable_event: record another event's hits, or no longer."""

    group = "event"

    def __init__(self, file: EventFile, name: str, count: int | None, target: EventFile) -> None:
        super().__init__(file, name, count)
        self.target = target
        self._on = name == "enable_event"

    @property
    def head(self) -> str:
        assert self.target is not None
        return f"{self.name}:{self.target.event.system}:{self.target.event.name}"

    def is_idle(self) -> bool:
        assert self.target is not None
        return self._on is not self.target.soft_disabled

    def act(self, hit: Hit) -> None:
        assert self.target is not None
        self.target.soft_disabled = not self._on


class HistSwitch(Switch):
    """enable_hist and disable_hist: let another event's hist triggers count, or no longer."""

    group = "hist switch"

    def __init__(self, file: EventFile, name: str, count: int | None, target: EventFile) -> None:
        super().__init__(file, name, count, target)
        self._on = name == "enable_hist"

    def is_idle(self) -> bool:
        return False

    def act(self, hit: Hit) -> None:
        assert self.target is not None
        for trigger in self.target.triggers:
            if trigger.group == "hist":
                trigger.paused = not self._on


def run_triggers(file: EventFile, hit: Hit, record: bytes) -> list[Trigger]:
    """Let the triggers that the record passes act; return those that act once it is written."""
    later = []
    for trigger in list(file.triggers):
        if trigger.paused or not trigger.wants(record, hit):
            continue
        if trigger.follows_record:
            later.append(trigger)
        else:
            trigger.fire(hit, record)
    return later
