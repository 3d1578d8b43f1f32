"""The dynamic events of one kernel: one list, and the files that write to it (trace_dynevent.c).

dynamic_events takes lines of every kind; each kind also has its own file, which lists and takes only that kind.
Sources: docs/kernel/kprobe_events.md, docs/kernel/dynamic_events.md; fixtures/definitions, fixtures/kinds.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from kprobe_sim.builds.messages import answer
from kprobe_sim.events.dyn_event import DynEvent, EventHost, Operations
from kprobe_sim.events.event_table import EventTable
from kprobe_sim.language.primitives.errlog import ErrorLog
from kprobe_sim.language.primitives.kstrto import tokens
from kprobe_sim.language.primitives.refusal import Declined, Printed, Refusal, refuse
from kprobe_sim.machine.simulated import SimulatedMachine
from kprobe_sim.probes.command import read_deletion
from kprobe_sim.probes.early_command import Nothing, early_deletion, read_head
from kprobe_sim.probes.fprobes import Fprobes
from kprobe_sim.probes.kprobes import Kprobes
from kprobe_sim.probes.probe_kind import DynEventList
from kprobe_sim.probes.probe_point import ProbePoints

if TYPE_CHECKING:
    from kprobe_sim.probes.eprobes import Eprobes
    from kprobe_sim.probes.synthetic import SyntheticEvents
    from kprobe_sim.probes.uprobes import Uprobes

_WINDOW = 4095  # bytes of a write that the kernel reads at once; a line has to end within them
_FIRST_WINDOW = 127  # the same before 2.6.39


class ProbeRegistry:
    """All dynamic events of one kernel, in the order of their creation.

    The modules of kinds that few kernels use are imported with the first line for them.
    """

    def __init__(
        self,
        machine: SimulatedMachine,
        table: EventTable,
        host: EventHost,
        errlog: ErrorLog,
        kprobes: Callable[[DynEventList], Kprobes] = Kprobes,
    ) -> None:
        profile = machine.profile
        points = ProbePoints(machine.symbols, machine.gates, lambda: profile.types, profile.thread_size)
        self._dyn_events = DynEventList(machine, points, host, errlog, table)
        self._listed: tuple[object, bytes] = (None, b"")  # the last listing, and the state that it shows
        self.kprobes: Kprobes = kprobes(self._dyn_events)
        self.fprobes: Fprobes = Fprobes(self._dyn_events)

    @cached_property
    def uprobes(self) -> Uprobes:
        """The uprobes."""
        from kprobe_sim.probes.uprobes import Uprobes

        return Uprobes(self._dyn_events)

    @cached_property
    def eprobes(self) -> Eprobes:
        """The event probes."""
        from kprobe_sim.probes.eprobes import Eprobes

        return Eprobes(self._dyn_events)

    @cached_property
    def synthetic(self) -> SyntheticEvents:
        """The synthetic events."""
        from kprobe_sim.probes.synthetic import SyntheticEvents

        return SyntheticEvents(self._dyn_events)

    @cached_property
    def _kinds(self) -> tuple[Operations, ...]:
        """The kinds of event that dynamic_events takes, in the order in which it tries them."""
        machine = self._dyn_events.machine
        kinds: list[Operations] = [self.kprobes, self.uprobes]
        if "synthetic_events" in machine.profile.tracefs.directory(""):
            kinds.append(self.synthetic)
        if machine.gates.eprobes:
            kinds.append(self.eprobes)
        if machine.gates.fprobes:
            kinds.append(self.fprobes)
        return tuple(kinds)

    @property
    def printed(self) -> list[str]:
        """The lines that refusals put into the kernel's log, where there is no error_log."""
        return self._dyn_events.printed

    def listen(self, callback: Callable[[DynEvent, bool], None]) -> None:
        """Call `callback` with each line of dynamic_events that comes (True) or goes (False)."""
        self._dyn_events.listeners.append(callback)

    def listing(self, kind: Operations | None = None) -> bytes:
        """Return the text of a kind's file; None stands for dynamic_events."""
        state = (kind, self._dyn_events.table.version)
        if state != self._listed[0]:  # a file is read piece by piece
            text = "".join([f"{entry.line()}\n" for entry in self._dyn_events.of(kind)])
            self._listed = (state, text.encode("latin-1"))
        return self._listed[1]

    def write(self, data: bytes, *, dynamic_events: bool = False) -> int:
        """Take one write(2) to kprobe_events (or dynamic_events); return its length.

        Lines run in order; the first that fails ends the write with its errno; the lines before it stay done.
        Raises OSError.
        """
        return self.write_to(None if dynamic_events else self.kprobes, data)

    def write_to(self, kind: Operations | None, data: bytes) -> int:
        """Take one write(2) to the file of a kind; None stands for dynamic_events."""
        gates = self._dyn_events.gates
        longest = _WINDOW if gates.long_lines and not gates.first_language else _FIRST_WINDOW
        return _take(data, lambda line: self._run(line, kind), longest, self._too_long)

    def _too_long(self) -> None:
        if self._dyn_events.gates.early:
            self.printed.append(self._dyn_events.gates.too_long_said)

    def write_synthetic(self, data: bytes) -> int:
        """Take one write(2) to synthetic_events."""
        return _take(data, self.synthetic.take, _WINDOW, lambda: None)

    def truncate(self, kind: Operations | None = None) -> None:
        """Remove all events of a kind, or all, as opening with O_TRUNC does.

        Raises OSError EBUSY if one is in use, and then removes nothing; one that something else refers to stops it
        halfway.
        """
        entries = self._dyn_events.of(kind)
        if any(entry.kind.is_busy(entry) for entry in entries):
            raise refuse(errno.EBUSY)
        for entry in entries:
            entry.kind.free(entry)

    def entry(self, function: int) -> int:
        """Return the address at which a function's entry is probed: after the ENDBR that it may start with."""
        return self._dyn_events.points.entry(function)

    def stand_in(self, places: range) -> bool:
        """Return whether a probe is at one of these addresses."""
        fprobes = (address for probe in self.fprobes.probes() for address in probe.addresses)
        return any(address in places for address in chain(self.kprobes.addresses(), fprobes))

    def _run(self, line: str, kind: Operations | None) -> None:
        words = tokens(line)
        if self._dyn_events.gates.early:
            self._run_early(line, words, kind)
            return
        marks = "-!" if kind is None else "-"
        if self._dyn_events.gates.first_language:
            marks = ""
        head = line if self._dyn_events.gates.delete_is_raw else "".join(words[:1])
        if head[:1] and head[0] in marks:
            self._delete(words, kind)
        elif words:
            self._create(line, words, self._kinds if kind is None else (kind,), logged=kind is None)

    def _run_early(self, line: str, words: list[str], kind: Operations | None) -> None:
        if not words or kind is None:
            return
        group = "uprobes" if kind.location == "trace_uprobe" else "kprobes"
        try:
            head = read_head(words[0], self._dyn_events.gates, group)
            if head.letter != "-":
                kind.create(line, words)
                return
            deletion = early_deletion(head)
            meant = [entry for entry in self._dyn_events.meant(deletion, kind) if entry.matches(deletion)]
            if not meant:
                raise Printed(errno.ENOENT, f"Event {deletion.group}/{deletion.event} doesn't exist.")
        except Nothing as nothing:
            self._dyn_events.print(kind.location, [("trace_kprobe", str(nothing))])
            return
        except Printed as refusal:
            self._dyn_events.print(kind.location, refusal.lines)
            raise refuse(refusal.errno or errno.EINVAL) from None
        for entry in meant:
            entry.kind.free(entry)

    def _create(self, line: str, words: list[str], kinds: tuple[Operations, ...], *, logged: bool) -> None:
        for kind in kinds:
            try:
                kind.create(line, words)
            except Declined:
                continue
            except Refusal as refusal:
                raise self._refused(kind.location, refusal, words) from None
            return
        number, text = answer("NO_KIND", self._dyn_events.gates)
        if text is not None and logged and self._dyn_events.gates.unmatched_is_logged:
            self._dyn_events.errlog.log("dynevent", text, line, 0)
        raise refuse(number)

    def _refused(self, location: str, refusal: Refusal, words: list[str]) -> OSError:
        """Log a refusal, and before it one that the kernel went on from; return the error to raise."""
        if refusal.before is not None:
            self._refused(location, refusal.before, words)
        number, text = answer(refusal.message, self._dyn_events.gates, refusal.errno)
        if text is not None:
            token = refusal.token or 0
            column = sum(len(word) + 1 for word in words[:token])
            if token < len(words):
                column += refusal.offset
            self._dyn_events.errlog.log(location, text, " ".join(words), column)
        return refuse(number)

    def _delete(self, words: list[str], kind: Operations | None) -> None:
        try:
            deletion = read_deletion(words, self._dyn_events.gates)
        except Refusal as refusal:
            raise self._refused("", refusal, words) from None
        meant = [entry for entry in self._dyn_events.meant(deletion, kind) if entry.matches(deletion)]
        if not meant:
            raise refuse(errno.ENOENT)
        for entry in meant:
            entry.kind.free(entry)


def _take(data: bytes, run: Callable[[str], None], longest: int, too_long: Callable[[], None]) -> int:
    """Run the lines of one write; return its length (trace_parse_run_command).

    `too_long` is called before a line that is too long is refused.
    """
    done = 0
    while done < len(data):
        window = data[done : done + longest]
        start = 0
        while True:
            end = window.find(b"\0", start)
            end = len(window) if end < 0 else end
            newline = window.find(b"\n", start, end)
            size = (end if newline < 0 else newline + 1) - start
            if newline < 0 and done + size < len(data):
                if start:
                    break  # the line goes on after this window: read it again from its start
                too_long()
                raise refuse(errno.EINVAL)
            done += size
            line = window[start : end if newline < 0 else newline]
            run(line.partition(b"#")[0].decode("latin-1"))
            start += size
            if done >= len(data):
                break
    return len(data)
