"""Uprobes: probes on instructions of programs (trace_uprobe.c of 6.12.117 and 7.2.13; fixtures/kinds).

Enabling an event puts its uprobes in place: the youngest on an instruction is called first (consumer_add()).
"""

from __future__ import annotations

import errno
from typing import ClassVar

from kprobe_sim.builds.gates import Gates
from kprobe_sim.events.dyn_event import DynEvent
from kprobe_sim.events.event import Find
from kprobe_sim.language.fetch.argument import FetchArg
from kprobe_sim.language.fetch.early_argument import compile_all_early
from kprobe_sim.language.fetch.evaluate import compile_arguments
from kprobe_sim.language.fetch.expression import Deref, Expression, From, Scope, Source, read_expression
from kprobe_sim.language.fetch.typecast import PER_CPU_POINTER, PER_CPU_READ
from kprobe_sim.language.primitives.kstrto import is_digit, is_name, kstrtol, kstrtoul
from kprobe_sim.language.primitives.refusal import Declined, Printed, Refusal, refuse
from kprobe_sim.machine.machine_files import FileFacts
from kprobe_sim.probes.command import compile_all, counted, read_names, split_return
from kprobe_sim.probes.early_command import check_names, read_head
from kprobe_sim.probes.probe_event import EventTraits, Probe, ProbeEvent
from kprobe_sim.probes.probe_kind import DynEventList, ProbeKind
from kprobe_sim.probes.probe_profile import ProbeProfile

_DEFAULT_GROUP = "uprobes"
_MAX_NAME = 63
_ADDRESS_SPACE = 1 << 64  # a program's stack may be as large as that
_SIGN = 1 << 63  # offsets from here on count as negative (loff_t), and so as within the file


class UserSources:
    """What the arguments of a uprobe may start from, where that differs from a kprobe's."""

    comm_has_any_type = False
    may_cast = False

    def __init__(self, *, rejects_symbols: bool) -> None:
        self.unknown_types = frozenset({"symbol", "symstr"} if rejects_symbols else ())

    def read(self, text: str, scope: Scope, column: int) -> Expression | None:
        first = text[:1]
        if scope.gates.typecasts:
            if text.startswith((PER_CPU_POINTER, PER_CPU_READ)):
                raise Refusal("NOSUP_PERCPU", column)
            if first == "(":
                raise Refusal("NOSUP_BTFARG_TYPES", column)
        if scope.gates.btf and is_name(first):
            raise Refusal("NOSUP_BTFARG", column)
        if first == "$":
            return self._variable(text[1:], scope, column)
        if first == "@" and not is_digit(text, 1):
            if text[1:2] != "+":
                raise Refusal("SYM_ON_UPROBE", column)
            try:
                offset = kstrtol(text[2:])
            except OSError as error:
                raise Refusal("BAD_FILE_OFFS", column, errno=error.errno) from None
            return Expression(Source(From.FILE_OFFSET, number=offset), (Deref(0),), 1, column)
        return None

    def _variable(self, name: str, scope: Scope, column: int) -> Expression | None:
        if scope.is_return and (name.startswith("retval") if scope.gates.btf else name == "retval"):
            return Expression(Source(From.RETURN_VALUE), (), 0, column)
        if name.startswith("stack") and is_digit(name, 5):
            try:
                return Expression(Source(From.STACK, number=kstrtoul(name[5:], 10)), (), 0, column)
            except OSError:
                return None  # refused as a kprobe's
        if name.startswith("arg"):  # a function's argument: refused, as everywhere but at a function's entry
            return read_expression(f"${name}", scope._replace(is_return=False, sources=None), column)
        if name.startswith("current"):
            raise Refusal("BAD_VAR", column)
        return None


class Uprobe(Probe):
    """A uprobe; `counter` is the offset of its reference counter in the file, 0 for none."""

    __slots__ = ("counter", "file", "offset", "path")

    def __init__(self, kind: Uprobes, event: ProbeEvent, path: str, file: FileFacts, offset: int, counter: int) -> None:
        super().__init__(kind, event, f"{path}:0x{offset:016x}" + (f"(0x{counter:x})" if counter else ""), ())
        self.path = path
        self.file = file
        self.offset = offset
        self.counter = counter

    def profile(self) -> str:
        """Return the probe's row of uprobe_profile, without newline."""
        return f"  {self.path} {self.event.name:<44} {self.hits:15d}"

    @property
    def site(self) -> tuple[object, int]:
        return self.file.identity, self.offset


class Uprobes(ProbeKind[Uprobe]):
    """The uprobes of one kernel."""

    location: ClassVar[str] = "trace_uprobe"

    def __init__(self, dyn_events: DynEventList) -> None:
        super().__init__(dyn_events)
        self._by_position: dict[tuple[object, int], dict[Uprobe, None]] = {}
        self._in_place: dict[Uprobe, None] = {}  # oldest first
        self.profile = ProbeProfile(dyn_events.table, self.probes)

    def create(self, line: str, words: list[str]) -> None:
        gates = self.dyn_events.gates
        if gates.early:
            self._create_early(words)
            return
        head = words[0]
        if head[0] not in "pr" or len(words) < 2:
            raise Declined
        if gates.too_many_arguments is not None:
            counted(words[2:], gates)
        path, colon, rest = words[1].rpartition(":")
        if "/" not in words[1] or not colon or not is_digit(rest, 0):
            raise Declined
        file = self._file(path)
        offset, counter, returns = _offsets(rest, len(path) + 1, self.dyn_events.gates)
        is_return = head[0] == "r" or returns
        group, name = _DEFAULT_GROUP, None
        if head[1:2] == ":":
            group, name = read_names(head[2:], 2, gates, group)
        if name is None:
            name = _default_name(path, offset)
        sources = UserSources(rejects_symbols=gates.uprobes_reject_symbols)
        scope = Scope(is_return, False, gates, sources=sources, stack_size=self.dyn_events.machine.profile.thread_size)
        arguments = compile_all(counted(words[2:], gates), scope)
        event = self._event(group, name, arguments, is_return=is_return)
        probe = Uprobe(self, event, path, file, offset, counter)
        probe.arguments = arguments
        others = self._by_position.get(probe.site)
        if others and next(iter(others)).counter != counter:  # the others have the same
            raise Refusal("DIFF_REFCNT")
        self.admit(probe)
        self._by_position.setdefault(probe.site, {})[probe] = None

    def _create_early(self, words: list[str]) -> None:
        """Make what a line defines, as kernels before 4.20 read it.  Raises Printed."""
        gates = self.dyn_events.gates
        head = read_head(words[0], gates._replace(early_maxactive=False), _DEFAULT_GROUP)
        if len(words) < 2:
            raise Printed(errno.EINVAL, "Probe point is not specified.")
        path, colon, rest = words[1].partition(":")
        file = None
        try:
            # without a path this is the writer's working directory
            file = self.dyn_events.machine.files.find(path or "/") if colon else None
            if file is None or not file.is_regular:
                raise refuse(errno.EINVAL)
            offset = kstrtoul(rest)
        except OSError as error:
            message = "Failed to parse address or file." if file is not None or gates.missing_file_said else ""
            raise Printed(error.errno or errno.EINVAL, message) from None
        name = _default_name(path, offset) if head.event is None else head.event
        check_names(head.group, name, kind="trace_uprobe")
        sources = UserSources(rejects_symbols=True)
        is_return = head.letter == "r"
        scope = Scope(is_return, False, gates, sources=sources, stack_size=self.dyn_events.machine.profile.thread_size)
        arguments = compile_all_early(words[2:], scope)
        event = self._event(head.group, name, arguments, is_return=is_return)
        probe = Uprobe(self, event, path, file, offset, 0)
        probe.arguments = arguments
        self.admit(probe)
        self._by_position.setdefault(probe.site, {})[probe] = None

    def _event(self, group: str, name: str, arguments: tuple[FetchArg, ...], *, is_return: bool) -> ProbeEvent:
        dyn_events = self.dyn_events
        traits = EventTraits(is_return, in_program=True, switch=self._switch)
        return ProbeEvent(group, name, arguments, dyn_events.symbols, dyn_events.gates, traits)

    def free(self, entry: DynEvent) -> None:
        super().free(entry)
        assert isinstance(entry, Uprobe)
        self._in_place.pop(entry, None)
        del self._by_position[entry.site][entry]
        if not self._by_position[entry.site]:
            del self._by_position[entry.site]

    def register(self, probe: Uprobe) -> None:
        """Prepare for hits; the probe is put in place when its event is enabled."""
        dyn_events = self.dyn_events
        # the kernel reads memory by copy_from_user(), which leaves zeroes where it fails, and strncpy_from_user()
        gates = dyn_events.gates._replace(failed_kernel_read="zero", empty_user_string_is_fault=False)
        probe.evaluate = compile_arguments(
            probe.arguments, probe.event.start, dyn_events.symbols, gates, _ADDRESS_SPACE
        )

    def in_place(self, file: object, offset: int) -> list[Uprobe]:
        """Return the probes on an instruction of a file, by the file's identity, in the order of their calls."""
        there = self._by_position.get((file, offset), ())
        return [probe for probe in reversed(self._in_place) if probe in there]

    def _switch(self, event: ProbeEvent, find: Find, on: bool) -> None:
        """Raise OSError if the kernel can't put the probes of an event in place (uprobe_register)."""
        if on:
            for probe in self.of(event):
                if not probe.file.mappable:
                    raise refuse(errno.EIO)
                if probe.file.size < probe.offset < _SIGN or probe.counter % 2:
                    raise refuse(errno.EINVAL)
            self._in_place |= dict.fromkeys(self.of(event))  # those in place keep their order
        elif not self.dyn_events.host.is_busy(event):
            for probe in self.of(event):
                self._in_place.pop(probe, None)

    def _file(self, path: str) -> FileFacts:
        try:
            file = self.dyn_events.machine.files.find(path)
        except OSError as error:
            raise Refusal("FILE_NOT_FOUND", 0, 1, errno=error.errno) from None
        if not file.is_regular:
            raise Refusal("NO_REGULAR_FILE", 0, 1)
        return file


def _offsets(text: str, column: int, gates: Gates) -> tuple[int, int, bool]:
    """Read OFFSET[%return][(REF)] from `column` of its token: offset, REF, and whether it is a return probe."""
    counter = 0
    offset, brace, rest = text.partition("(")
    if brace:
        inner, close, after = rest.partition(")")
        start = column + len(offset) + 1
        if not close:
            raise Refusal("REFCNT_OPEN_BRACE", start + len(rest), 1)
        if after:
            raise Refusal("BAD_REFCNT_SUFFIX", start + len(inner) + 1, 1)
        counter = _number(inner, "BAD_REFCNT", start)
    is_return = False
    if gates.percent_return:
        offset, is_return = split_return(offset, column)
    return _number(offset, "BAD_UPROBE_OFFS", column), counter, is_return


def _number(text: str, message: str, column: int) -> int:
    try:
        return kstrtoul(text)
    except OSError as error:
        raise Refusal(message, column, 1, errno=error.errno) from None


def _default_name(path: str, offset: int) -> str:
    """Return the default name of an event: p_, for returns too, and the file's name up to a `.`, `-` or `_`."""
    tail = path.rpartition("/")[2]
    end = min((at for at in map(tail.find, ".-_") if at >= 0), default=len(tail))
    return f"p_{tail[:end]}_0x{offset:x}"[:_MAX_NAME]
