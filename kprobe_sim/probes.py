"""The registry of kprobe events: what kprobe_events and dynamic_events write to and list.

Sources: kernel reference 1.1, 1.7-1.9; fixtures/definitions.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from typing import Protocol

from kprobe_sim.command import Creation, Deletion, read_creation, read_deletion
from kprobe_sim.errlog import ErrorLog
from kprobe_sim.evaluate import compile_arguments
from kprobe_sim.gates import Gates
from kprobe_sim.kstrto import ULONG_MAX, tokens
from kprobe_sim.messages import message_text
from kprobe_sim.node import refuse
from kprobe_sim.probe_event import Probe, ProbeEvent, first_difference
from kprobe_sim.probe_point import MAX_ERRNO, Place, ProbePoints
from kprobe_sim.prototypes import PrototypeTable
from kprobe_sim.refusal import Declined, Refusal
from kprobe_sim.symbols import SymbolTable

_WINDOW = 4095  # bytes of a write that are looked at together; a line has to end within them


class EventHost(Protocol):
    """What the registry needs of the kernel around it."""

    def event_exists(self, system: str, name: str) -> bool:
        """True when an event that isn't a kprobe event has that name."""
        ...

    def add_event(self, event: ProbeEvent) -> None:
        """Take in a new event and set its id; refused registrations add and remove one too, as in the kernel."""
        ...

    def remove_event(self, event: ProbeEvent) -> None:
        """Let an event go, with the traces of the instances where it was ever enabled."""
        ...

    def is_busy(self, event: ProbeEvent) -> bool:
        """True when the event is enabled anywhere, softly too, or something refers to it."""
        ...


class ProbeRegistry:
    """All probes of one kernel, in the order of their creation.

    `hashed_pointer` gives what printk's %p makes of an address.  `cpus` is the number of possible CPUs.
    `types` gives what BTF says, None where there is nothing to ask.
    """

    __slots__ = (
        "_cpus",
        "_errlog",
        "_events",
        "_gates",
        "_hashed_pointer",
        "_host",
        "_points",
        "_probes",
        "_symbols",
        "version",
    )

    def __init__(
        self,
        symbols: SymbolTable,
        gates: Gates,
        errlog: ErrorLog,
        host: EventHost,
        hashed_pointer: Callable[[int], int],
        cpus: int,
        types: Callable[[], PrototypeTable | None] = lambda: None,
    ) -> None:
        self._gates = gates
        self._errlog = errlog
        self._host = host
        self._hashed_pointer = hashed_pointer
        self._cpus = cpus
        self._symbols = symbols
        self._points = ProbePoints(symbols, gates, types)
        self._probes: dict[Probe, None] = {}  # an ordered set
        self.version = 0  # changes with every probe that comes or goes
        self._events: dict[tuple[str, str], ProbeEvent] = {}

    def __iter__(self) -> Iterator[Probe]:
        """Yield the probes, oldest first."""
        return iter(list(self._probes))

    def events(self) -> list[ProbeEvent]:
        """Return the events, oldest first."""
        return list(self._events.values())

    def event(self, system: str, name: str) -> ProbeEvent | None:
        """Return the event of that name, or None."""
        return self._events.get((system, name))

    def listing(self) -> bytes:
        """Return what kprobe_events reads."""
        return "".join(f"{probe.line()}\n" for probe in self._probes).encode("latin-1")

    def profile(self) -> bytes:
        """Return what kprobe_profile reads."""
        return "".join(f"{probe.profile()}\n" for probe in self._probes).encode("latin-1")

    def write(self, data: bytes, *, dynamic_events: bool = False) -> int:
        """Take one write(2) to kprobe_events (or dynamic_events); return its length.

        Lines run in order; the first that fails ends the write with its errno, and what was done stays done.
        Raises OSError.
        """
        done = 0
        while done < len(data):
            window = data[done : done + _WINDOW]
            at = 0
            while True:
                end = window.find(b"\0", at)
                end = len(window) if end < 0 else end
                newline = window.find(b"\n", at, end)
                size = (end if newline < 0 else newline + 1) - at
                if newline < 0 and done + size < len(data):
                    if at:
                        break  # the line goes on behind this window: look at it from its start
                    raise refuse(errno.EINVAL)
                done += size
                line = window[at : end if newline < 0 else newline]
                self._run(line.partition(b"#")[0].decode("latin-1"), dynamic_events)
                at += size
                if done >= len(data):
                    break
        return len(data)

    def truncate(self) -> None:
        """Remove all probes, as opening with O_TRUNC does; raise OSError EBUSY, and do nothing, if one is in use."""
        if any(self._host.is_busy(event) for event in self._events.values()):
            raise refuse(errno.EBUSY)
        for probe in list(self._probes):
            self._remove(probe)

    def entry(self, function: int) -> int:
        """Return where the entry of a function is probed: behind the ENDBR that it may start with."""
        return self._points.entry(function)

    def _run(self, line: str, dynamic_events: bool) -> None:
        words = tokens(line)
        marks = "-!" if dynamic_events else "-"
        head = line if self._gates.delete_is_raw else "".join(words[:1])
        if head[:1] and head[0] in marks:
            try:
                self._delete(read_deletion(words, self._gates))
            except Refusal as refusal:
                raise refuse(refusal.errno) from None
        elif words:
            try:
                self._create(read_creation(words, self._points, self._pointer, self._gates))
            except Declined:
                if dynamic_events and self._is_unsimulated(words):
                    raise refuse(errno.ENOSYS) from None
                if dynamic_events and self._gates.unmatched_is_logged:
                    self._errlog.log("dynevent", "No matching dynamic event type", " ".join(words), 0)
                raise refuse(errno.EINVAL) from None
            except Refusal as refusal:
                self._log(refusal, words)
                raise refuse(refusal.errno) from None

    def _is_unsimulated(self, words: list[str]) -> bool:
        """True for a line of a kind that this kernel knows and the simulator doesn't."""
        is_uprobe = words[0][0] in "pr" and len(words) > 1 and "/" in words[1] and ":" in words[1]
        kind = words[0].partition(":")[0]
        return is_uprobe or (len(kind) == 1 and kind in self._gates.other_kinds)

    def _log(self, refusal: Refusal, words: list[str]) -> None:
        if refusal.message is None:
            return
        token = refusal.token or 0
        column = sum(len(word) + 1 for word in words[:token])
        if token < len(words):
            column += refusal.offset
        text = message_text(refusal.message, self._gates)
        self._errlog.log("trace_kprobe", text, " ".join(words), column)

    def _pointer(self, address: int) -> str:
        """Return an address as 0x%p prints it: hashed, but error pointers as they are."""
        shown = address if address > ULONG_MAX - MAX_ERRNO else self._hashed_pointer(address)
        return f"0x{shown:016x}"

    def _place_text(self, place: Place) -> str:
        if place.symbol is None:
            return self._pointer(place.address)
        return f"{place.symbol}+{place.offset}" if place.offset else place.symbol

    def _create(self, creation: Creation) -> None:
        key = (creation.group, creation.event)
        old = self._events.get(key)
        if old is None:
            if self._host.event_exists(*key):
                raise Refusal(errno.EEXIST, "EVENT_EXIST", 0, 0)
            event = ProbeEvent(creation, self._symbols, self._gates)
            probe = Probe(event, creation, self._place_text(creation.place))
            self._host.add_event(event)
            try:
                self._register(probe)
            except Refusal:
                self._host.remove_event(event)
                raise
            self._events[key] = event
        else:
            event = old
            probe = self._sibling(event, creation)
            self._register(probe)
        event.probes.append(probe)
        self._probes[probe] = None
        self.version += 1

    def _sibling(self, event: ProbeEvent, creation: Creation) -> Probe:
        """Return another probe for an event that exists already, if it fits."""
        if creation.is_return != event.is_return:
            raise Refusal(errno.EEXIST, "DIFF_PROBE_TYPE", 0, 0)
        difference = first_difference(creation.arguments, event.probes[0].arguments)
        if difference:
            raise Refusal(errno.EEXIST, "DIFF_ARG_TYPE", 0, difference + 1)
        probe = Probe(event, creation, self._place_text(creation.place))
        if any(probe.is_same_as(other) for other in event.probes):
            raise Refusal(errno.EEXIST, "SAME_PROBE", 0, 0)
        return probe

    def _register(self, probe: Probe) -> None:
        is_return = probe.event.is_return
        try:
            found = self._points.register(probe.place, probe.arguments, is_return=is_return)
        except OSError as error:
            number = error.errno or errno.EINVAL
            symbol = probe.place.symbol
            waits = symbol is None or (":" in symbol and not self._points.module_is_loaded(symbol))
            if number == errno.ENOENT and waits:
                return  # its module may come yet
            message = {errno.EILSEQ: "BAD_INSN_BNDRY", errno.ENOENT: "BAD_PROBE_ADDR"}.get(number, "FAIL_REG_PROBE")
            raise Refusal(number, message, 0, 1) from None
        probe.address, probe.arguments = found
        if probe.place.symbol is None:  # registration has moved an entry's address behind its ENDBR
            probe.place_text = self._pointer(found.address)
        probe.evaluate = compile_arguments(found.arguments, probe.event.start, self._symbols, self._gates)
        if is_return and not probe.maxactive:
            probe.maxactive = max(10, 2 * self._cpus) if self._gates.maxactive_floor else self._cpus

    def _delete(self, deletion: Deletion) -> None:
        meant = [probe for probe in self._probes if probe.matches(deletion)]
        if not meant:
            raise refuse(errno.ENOENT)
        for probe in meant:
            self._remove(probe)

    def _remove(self, probe: Probe) -> None:
        event = probe.event
        if len(event.probes) == 1:
            if self._host.is_busy(event):
                raise refuse(errno.EBUSY)
            del self._events[event.system, event.name]
            self._host.remove_event(event)
        event.probes.remove(probe)
        del self._probes[probe]
        self.version += 1
