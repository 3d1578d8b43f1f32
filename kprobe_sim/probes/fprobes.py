"""Fprobes and tracepoint probes: on entry and return of functions, and on tracepoints, through ftrace.

Source: trace_fprobe.c of 6.12.117, 7.2.13 and 7.3; fixtures/kinds.
"""

from __future__ import annotations

import errno
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar

from kprobe_sim.builds.gates import Gates
from kprobe_sim.events.dyn_event import DynEvent
from kprobe_sim.events.event import Find
from kprobe_sim.language.fetch.argument import FetchArg
from kprobe_sim.language.fetch.btf_arguments import Function
from kprobe_sim.language.fetch.evaluate import compile_arguments
from kprobe_sim.language.fetch.expression import Expression, Scope
from kprobe_sim.language.primitives.kstrto import is_digit
from kprobe_sim.language.primitives.name_glob import globbed
from kprobe_sim.language.primitives.refusal import Declined, Refusal, refuse
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.probes.command import (
    RETURN_SUFFIX,
    read_arguments,
    read_maxactive,
    read_names,
    refused_register,
    split_return,
)
from kprobe_sim.probes.probe_event import EventTraits, Probe, ProbeEvent
from kprobe_sim.probes.probe_kind import DynEventList, ProbeKind, not_registered

_MAX_NAME = 63
STUB = "__probestub_"  # the function that a tracepoint calls; its first argument isn't one of the tracepoint's
_BAD_IN_TRACEPOINT = re.compile("[^0-9A-Za-z_\xc0-\xd6\xd8-\xf6\xf8-\xff]")
_RETURN_VALUE = re.compile(r"\$retval(?![0-9A-Za-z_\xc0-\xd6\xd8-\xf6\xf8-\xff])")


class FunctionSources:
    """What the arguments of an fprobe may start from: what a kprobe's may at a function's entry, but no registers."""

    comm_has_any_type = False
    may_cast = True
    unknown_types: frozenset[str] = frozenset()

    def read(self, text: str, scope: Scope, column: int) -> Expression | None:
        if text.startswith("%"):
            raise refused_register(scope, column)
        return None


class Target(NamedTuple):
    """What a line names: a function (or pattern), or a tracepoint."""

    symbol: str
    is_return: bool
    is_tracepoint: bool


class Fprobe(Probe):
    """An fprobe; `addresses` are the entries of the functions that it is attached to."""

    __slots__ = ("addresses", "maxactive", "target")

    def __init__(
        self, kind: Fprobes, event: ProbeEvent, target: Target, arguments: Sequence[FetchArg], maxactive: int
    ) -> None:
        super().__init__(kind, event, target.symbol + (RETURN_SUFFIX if target.is_return else ""), arguments)
        self.target = target
        self.maxactive = maxactive
        self.addresses: tuple[int, ...] = ()

    @property
    def letters(self) -> str:
        letter = "t" if self.target.is_tracepoint else "f"
        return f"{letter}{self.maxactive}" if self.target.is_return and self.maxactive else letter

    def is_on(self, point: str) -> bool:
        return point == self.target.symbol

    @property
    def site(self) -> str:
        return self.target.symbol


class Fprobes(ProbeKind[Fprobe]):
    """The fprobes and tracepoint probes of one kernel."""

    location: ClassVar[str] = "trace_fprobe"

    def __init__(self, dyn_events: DynEventList) -> None:
        super().__init__(dyn_events)
        self._by_address: dict[int, dict[Fprobe, int]] = {}
        self._taken: set[str] = set()  # tracepoints whose stub is taken: 6.12 gives each once

    def attached_to(self, function: int) -> Mapping[Fprobe, int]:
        """Return the fprobes on the function at an address, and how often each is on it.

        A pattern matches a function as often as there are functions of its name.
        """
        return self._by_address.get(function, {})

    def create(self, line: str, words: list[str]) -> None:
        dyn_events, gates = self.dyn_events, self.dyn_events.gates
        head = words[0]
        if head[0] not in "ft" or len(words) < 2:
            raise Declined
        colon = head.find(":", 1)
        if gates.fprobe_maxactive:
            maxactive = read_maxactive(head, colon)
        elif len(head) > 1 and colon != 1:
            raise Refusal("BAD_MAXACT", 1, 0)
        else:
            maxactive = 0
        target = _target(words, is_tracepoint=head[0] == "t")
        if maxactive and not target.is_return:
            raise Refusal("BAD_MAXACT_TYPE", 1, 0)
        group, name = "tracepoints" if target.is_tracepoint else "fprobes", None
        if colon >= 0:
            group, name = read_names(head[colon + 1 :], colon + 1, gates, group)
        if name is None:
            name = _default_name(target, gates)
        scope = Scope(
            target.is_return,
            not target.is_return,
            gates,
            self._function(target),
            sources=FunctionSources(),
            first=int(target.is_tracepoint),
            stack_size=dyn_events.machine.profile.thread_size,
        )
        arguments = read_arguments(words, scope)
        event = ProbeEvent(
            group,
            name,
            arguments,
            dyn_events.symbols,
            gates,
            EventTraits(is_return=target.is_return, is_attachable=True, switch=self._switch),
        )
        try:
            self.admit(Fprobe(self, event, target, arguments, maxactive))
        except Refusal as refusal:
            if gates.fprobes_late:
                refusal.errno = errno.EINVAL  # here these kernels log what is wrong, and answer EINVAL to all
            raise

    def check_sibling(self, probe: Fprobe, other: Fprobe) -> None:
        if probe.target.is_tracepoint != other.target.is_tracepoint:
            raise Refusal("DIFF_PROBE_TYPE", 0, 0)
        super().check_sibling(probe, other)

    def register(self, probe: Fprobe) -> None:
        gates = self.dyn_events.gates
        try:
            if gates.fprobes_late and not probe.target.is_tracepoint and not self._functions(probe.target.symbol):
                raise refuse(errno.ENOENT)
            if not gates.fprobes_wait:
                self._resolve(probe)
                self._attach(probe)
        except OSError as error:
            raise not_registered(error.errno) from None

    def free(self, entry: DynEvent) -> None:
        super().free(entry)
        assert isinstance(entry, Fprobe)
        self._move(entry, ())
        if entry.target.is_tracepoint:
            self._taken.discard(entry.target.symbol)

    def _switch(self, event: ProbeEvent, find: Find, on: bool) -> None:
        """Attach the probes of an event; raise OSError if what they need is missing."""
        if on and self.dyn_events.gates.fprobes_wait:
            for probe in self.of(event):
                self._resolve(probe)
                self._attach(probe)

    def _function(self, target: Target) -> Function:
        found = self.dyn_events.points.named(STUB + target.symbol if target.is_tracepoint else target.symbol)
        if not target.is_tracepoint:
            return found
        if found.signature is None:  # it may come with a module: until then the kernel takes a function of its name
            found = self.dyn_events.points.named(target.symbol)
        if found.signature is None:
            return found
        signature = found.signature._replace(parameters=found.signature.parameters[1:])
        return found._replace(signature=signature)

    def _resolve(self, probe: Fprobe) -> None:
        dyn_events = self.dyn_events
        probe.arguments = tuple([dyn_events.points.resolve(argument) for argument in probe.arguments])
        stack_size = dyn_events.machine.profile.thread_size
        probe.evaluate = compile_arguments(
            probe.arguments, probe.event.start, dyn_events.symbols, dyn_events.gates, stack_size
        )

    def _attach(self, probe: Fprobe) -> None:
        if probe.target.is_tracepoint:
            self._attach_to_tracepoint(probe)
            return
        pattern = probe.target.symbol
        if not self.dyn_events.gates.fprobes_late and pattern.startswith("!") and self._functions(pattern[1:]):
            return  # the filter excludes these functions, and so matches none
        found_addresses = self._functions(probe.target.symbol)
        if probe.maxactive < 0:
            raise refuse(errno.EINVAL)
        if not found_addresses:
            raise refuse(errno.ENOENT if self.dyn_events.gates.fprobes_late else errno.EINVAL)
        self._move(probe, found_addresses)

    def _attach_to_tracepoint(self, probe: Fprobe) -> None:
        symbol = probe.target.symbol
        if symbol in self._taken:
            raise refuse(errno.EEXIST)
        found = self.dyn_events.symbols.lookup(STUB + symbol)
        if found and not self.dyn_events.gates.fprobes_wait:
            self._taken.add(symbol)
        if any(not self._is_traceable(stub.address) for stub in found):
            # and 6.12 leaves the stub where it is
            raise refuse(errno.ENOENT if self.dyn_events.gates.fprobes_late else errno.EINVAL)
        self._move(probe, [stub.address for stub in found])

    def _move(self, probe: Fprobe, addresses: Sequence[int]) -> None:
        """Move a probe to other functions."""
        for address in set(probe.addresses):
            del self._by_address[address][probe]
            if not self._by_address[address]:
                del self._by_address[address]
        probe.addresses = tuple(addresses)
        for address, times in Counter(addresses).items():
            self._by_address.setdefault(address, {})[probe] = times

    def _functions(self, pattern: str) -> list[int]:
        """Return the traceable functions that a name or pattern means."""
        symbols = self.dyn_events.symbols
        if not any(mark in pattern for mark in "*?["):
            return [symbol.address for symbol in symbols.lookup(pattern) if self._is_traceable(symbol.address)]
        functions = self.dyn_events.machine.functions()
        found = [
            number
            for number in globbed(pattern.encode("latin-1"), functions.names)
            if not functions.is_of_module(number)
        ]
        return [symbol.address for number in found for symbol in symbols.lookup(functions.names[number])]

    def _is_traceable(self, address: int) -> bool:
        return self.dyn_events.symbols.is_traceable(self.dyn_events.points.entry(address))


def _target(words: list[str], *, is_tracepoint: bool) -> Target:
    """Read what the probe is on; $retval among an fprobe's arguments puts it on the return."""
    symbol, is_return = split_return(words[1])
    if is_return:
        if is_tracepoint:
            raise Refusal("BAD_ADDR_SUFFIX", len(symbol), 1)
        return Target(symbol, True, False)
    if is_tracepoint and (bad := _BAD_IN_TRACEPOINT.search(symbol)):
        raise Refusal("BAD_TP_NAME", bad.start(), 1)
    for token, word in enumerate(words[2:], 2):
        start = word.find("$retval")
        if start >= 0 and _RETURN_VALUE.match(word, start):
            if is_tracepoint:
                raise Refusal("RETVAL_ON_PROBE", start, token)
            return Target(symbol, True, False)
    return Target(symbol, False, is_tracepoint)


def _default_name(target: Target, gates: Gates) -> str:
    if target.is_tracepoint:
        name = f"{'_' if is_digit(target.symbol, 0) else ''}{target.symbol}"
    else:
        name = f"{target.symbol}__{'exit' if target.is_return else 'entry'}"
    name = name[:_MAX_NAME]
    for character in gates.sanitized:
        name = name.replace(character, "_")
    return name
