"""The kprobes of the patch of 2009: a line without groups, no way to delete one, and events that begin at once.

Sources: scenarios/replays/seeds, tracer-2009 and lwn-2009; revision 11 of the patch's trace_kprobe.c:
create_trace_probe(), register_trace_probe(), cleanup_all_probes().
"""

from __future__ import annotations

import errno

from kprobe_sim.events.dyn_event import DynEvent
from kprobe_sim.language.fetch.expression import From
from kprobe_sim.language.primitives.kstrto import is_digit, kstrtoul
from kprobe_sim.language.primitives.refusal import Refusal, refuse
from kprobe_sim.probes.command import DEFAULT_GROUP, Creation
from kprobe_sim.probes.kprobes import Kprobe, Kprobes
from kprobe_sim.probes.patch_2009.arguments import read_first_arguments, split_first_offset, without_symbols
from kprobe_sim.probes.patch_2009.event import FirstEvent
from kprobe_sim.probes.probe_point import ProbeLocation


class FirstKprobe(Kprobe):
    """A kprobe of the patch of 2009."""

    __slots__ = ()

    def line(self) -> str:
        """Return the probe as kprobe_events lists it, without newline."""
        event, point = self.event, self.point
        where = f"0x{point.address:016x}" if point.symbol is None else f"{point.symbol}{point.offset:+d}"
        words = [f"{'r' if event.is_return else 'p'}:{event.name}", where]
        has_names = self.kind.dyn_events.gates.first_names if isinstance(self.kind, FirstKprobes) else False
        words += [f"{one.name}={one.text}" if has_names else one.text for one in self.arguments]
        return " ".join(words)


class FirstKprobes(Kprobes):
    """The kprobes of a kernel with the patch of 2009."""

    def create(self, line: str, words: list[str]) -> None:
        """Make what a line defines; raise OSError."""
        dyn_events = self.dyn_events
        gates, points = dyn_events.gates, dyn_events.points
        if len(words) < 2 or words[0][0] not in "pr":
            raise refuse(errno.EINVAL)
        is_return = words[0][0] == "r"
        has_name = words[0][1:2] == ":"  # the kernel ignores anything else after the letter
        name = words[0][2:] if has_name else ""
        if has_name and not name:
            raise refuse(errno.EINVAL)
        point = _read_point(words[1], is_return=is_return)
        if "/" in name:  # not a name of a directory
            raise refuse(errno.EINVAL)
        arguments = read_first_arguments(words[2:], is_return=is_return, named=gates.first_names)
        arguments = tuple(
            [
                without_symbols(argument)
                if argument.expression.source.kind is From.SYMBOL
                and not points.address_of(split_first_offset(argument.expression.source.text)[0])
                else argument
                for argument in arguments
            ]
        )
        name = name or _made_name(point, is_return=is_return)
        event = FirstEvent(name, DEFAULT_GROUP, arguments, dyn_events.symbols, gates, is_return=is_return)
        creation = Creation(is_return, 0, DEFAULT_GROUP, name, points.find(point), arguments)
        known = dyn_events.event(DEFAULT_GROUP, name)
        self._try(creation, event)  # before removing what it replaces
        if known is not None:
            for old in self.of(known):
                self.free(old)
        self.admit(FirstKprobe(self, event, creation, words[1]))
        dyn_events.host.enable_event(event, True)

    def _try(self, creation: Creation, event: FirstEvent) -> None:
        """Raise OSError EINVAL for a probe that can't be placed."""
        try:
            self.dyn_events.points.register(creation.spot, creation.arguments, is_return=event.is_return)
        except OSError:
            raise refuse(errno.EINVAL) from None

    def register(self, probe: Kprobe) -> None:
        """Put a probe in its place; raise OSError EINVAL."""
        try:
            super().register(probe)
        except Refusal:
            raise refuse(errno.EINVAL) from None

    def is_busy(self, entry: DynEvent) -> bool:
        """False: the file can always be truncated."""
        return False

    def free(self, entry: DynEvent) -> None:
        """Remove a probe, enabled as it is."""
        self.dyn_events.host.enable_event(entry.event, False)
        super().free(entry)


def _read_point(text: str, *, is_return: bool) -> ProbeLocation:
    if is_digit(text, 0):
        if is_return:
            raise refuse(errno.EINVAL)
        return ProbeLocation(None, 0, kstrtoul(text))
    symbol, offset = split_first_offset(text)
    if offset and is_return:
        raise refuse(errno.EINVAL)
    return ProbeLocation(symbol, offset, 0)


def _made_name(point: ProbeLocation, *, is_return: bool) -> str:
    """Return the default name of an event: both documents say that there is one, 2.6.33 how it is made."""
    where = f"0x{point.address:x}" if point.symbol is None else f"{point.symbol}_{point.offset}"
    return f"{'r' if is_return else 'p'}_{where}"
