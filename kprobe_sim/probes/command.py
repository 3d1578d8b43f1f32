"""The kernel's parser of one kprobe_events line.

A line is tokens; the first says what to do, the second where, the rest what to fetch.  Errors point at tokens.
Sources: docs/kernel/definitions.md#order-of-checks; fixtures/definitions.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from kprobe_sim.builds.gates import Gates
from kprobe_sim.events.dyn_event import Deletion
from kprobe_sim.language.fetch.argument import MAX_ARGUMENTS, FetchArg, compile_argument
from kprobe_sim.language.fetch.btf_arguments import expand_arguments
from kprobe_sim.language.fetch.expression import Scope
from kprobe_sim.language.primitives.kstrto import UINT_MAX, is_digit, is_name, is_system, kstrtouint, kstrtoul
from kprobe_sim.language.primitives.refusal import Declined, Refusal
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.probes.probe_point import ProbeLocation, ProbePoints, Spot, split_offset

DEFAULT_GROUP = "kprobes"
RETURN_SUFFIX = "%return"
_MAX_NAME = 63
_MAX_ACTIVE = 4096
_DENTRIES_SIZE = 256  # bytes for all rewritten %pd and %pD, NULs included
_INT_MAX = (1 << 31) - 1


class Creation(NamedTuple):
    """A definition as it was read, before the kernel tries to place it.

    `maxactive` is 0 where none was given.
    """

    is_return: bool
    maxactive: int
    group: str
    event: str
    spot: Spot
    arguments: tuple[FetchArg, ...]

    @property
    def point(self) -> ProbeLocation:
        """The probe point as it was written."""
        return self.spot.point


def read_deletion(words: list[str], gates: Gates) -> Deletion:
    """Read -:[GRP/][EVENT] [PLACE [ARGS]], or the !KIND:... form.  Raises Refusal (EINVAL, nothing logged)."""
    head = words[0]
    if head.startswith("-"):
        colon = head[1:2]
        name = head[2:]
    else:
        _, colon, name = head.partition(":")
    if colon != ":":
        raise Refusal("BAD_DELETE")
    group, slash, event = name.partition("/")
    if not slash:
        group, event = "", name
    if not event and (not slash or not gates.delete_group):
        raise Refusal("BAD_DELETE")
    return Deletion(group if slash else None, event, tuple(words[1:]), gates.delete_compares)


def read_maxactive(head: str, colon: int) -> int:
    """Return the digits after a line's first letter; 0 without any, negative where the kernel's int is.

    Raises Refusal (EINVAL).
    """
    if not is_digit(head, 1):
        return 0
    text = head[1:colon] if colon >= 0 else head[1:]
    try:
        number = kstrtouint(text) if len(text) <= _MAX_NAME else 0
    except OSError:
        number = 0
    if not number:
        raise Refusal("BAD_MAXACT", 1, 0)
    if _MAX_ACTIVE < number <= _INT_MAX:
        raise Refusal("MAXACT_TOO_BIG", 1, 0)
    return number if number <= _INT_MAX else number - UINT_MAX - 1


def split_return(text: str, column: int = 0) -> tuple[str, bool]:
    """Split PLACE[%return], which starts at `column` of its token; return PLACE, and whether the suffix is there.

    Raises Refusal for another suffix.
    """
    point, percent, suffix = text.partition("%")
    if percent and percent + suffix != RETURN_SUFFIX:
        raise Refusal("BAD_ADDR_SUFFIX", column + len(point), 1)
    return point, bool(percent)


def _read_point(text: str, gates: Gates, *, is_return: bool) -> tuple[ProbeLocation, bool]:
    """Read PLACE; return it and whether the probe is on the function's return."""
    try:
        return ProbeLocation(None, 0, kstrtoul(text)), is_return
    except OSError:
        pass
    if "/" in text and ":" in text:
        raise Declined
    if gates.percent_return:
        text, returns = split_return(text)
        is_return = is_return or returns
    try:
        symbol, offset = split_offset(text)
    except OSError:
        raise Refusal("BAD_PROBE_ADDR", 0, 1) from None
    if not 0 <= offset <= UINT_MAX:
        raise Refusal("BAD_PROBE_ADDR", 0, 1)
    return ProbeLocation(symbol, offset, 0), is_return


def _check_unique(spot: Spot, points: ProbePoints, gates: Gates) -> None:
    symbol = spot.point.symbol or ""
    if not gates.symbols_counted:
        return
    if ":" in symbol and not (gates.module_symbols_counted and points.module_is_loaded(symbol)):
        return
    if spot.meanings > 1:
        raise Refusal("NON_UNIQ_SYMBOL", 0, 1)
    if spot.meanings == 0:
        raise Refusal("BAD_PROBE_ADDR_SYMBOL", 0, 1)


def _group_fault(group: str, gates: Gates) -> str:
    """Return the fault of a group's name, "" if there is none."""
    if not group:
        return "NO_GROUP_NAME"
    if len(group) > _MAX_NAME:
        return "GROUP_TOO_LONG"
    good = is_system(group) if gates.hyphen_in_group else is_name(group)
    return "" if good else "BAD_GROUP_NAME"


def read_names(text: str, column: int, gates: Gates, group: str = "", token: int = 0) -> tuple[str, str | None]:
    """Read [GRP/][EVENT]; return the group (by default `group`) and the event (None if the kernel makes a name)."""

    def bad(message: str) -> Refusal:
        return Refusal(message, column, token)

    written, separator, event = text.partition("/")
    if not separator and gates.dot_separates_group:
        written, separator, event = text.partition(".")
    if not separator:
        event = text
    else:
        group = written
        if fault := _group_fault(group, gates):
            raise bad(fault)
        column += len(group) + 1
    if not event:
        if separator and gates.empty_event_is_auto:
            return group, None
        raise bad("NO_EVENT_NAME")
    if len(event) > gates.name_size:
        raise bad("EVENT_TOO_LONG")
    if not is_name(event):
        raise bad("BAD_EVENT_NAME")
    return group, event


def _default_event(point: ProbeLocation, pointer: Callable[[int], str], *, is_return: bool, gates: Gates) -> str:
    body = pointer(point.address) if point.symbol is None else f"{point.symbol}_{point.offset}"
    name = f"{'r' if is_return else 'p'}_{body}"[:_MAX_NAME]
    for character in gates.sanitized:
        name = name.replace(character, "_")
    return name


def _expand_dentries(words: list[str], gates: Gates) -> list[str]:
    """Rewrite EXPR:%pd (a dentry) and EXPR:%pD (a file) into the read of the name; offsets are the structs' own.

    Raises Refusal (ENOMEM, nothing logged) when all that is rewritten takes more than 256 bytes.
    """
    room = _DENTRIES_SIZE
    name_at, dentry_at = gates.dentry_offsets
    of_dentry = f"+0x0(+0x{name_at:x}("
    rewritten = []
    for word in words:
        for suffix, prefix in ((":%pd", of_dentry), (":%pD", f"{of_dentry}+0x{dentry_at:x}(")):
            if word.endswith(suffix):
                name, equals, body = word.removesuffix(suffix).partition("=")
                if not equals:
                    name, body = "", name
                word = f"{name}{equals}{prefix}{body}{')' * prefix.count('(')}:string"
                if len(word) >= room:
                    raise Refusal("DENTRIES_TOO_LONG")
                room -= len(word) + 1
        rewritten.append(word)
    return rewritten


def read_arguments(line: list[str], scope: Scope) -> tuple[FetchArg, ...]:
    """Compile the arguments of a line, after expanding $argN and %pd.  Raises Refusal."""
    expanded = None
    forgotten = None
    if scope.gates.btf:
        try:
            reachable = scope.at_entry or scope.is_return
            expanded = expand_arguments(line[2:], scope.function, scope.gates, reachable=reachable)
        except Refusal as refusal:
            if refusal.message != "NOSUP_BTFARG_TYPES" or not scope.gates.unknown_parameters_go_on:
                raise
            forgotten = refusal
    try:
        return _compiled(line, expanded, scope)
    except Refusal as refusal:
        refusal.before = refusal.before or forgotten
        raise


def _compiled(line: list[str], expanded: list[str] | None, scope: Scope) -> tuple[FetchArg, ...]:
    """Compile the arguments of a line, or the expanded ones.

    %pd and %pD are rewritten in the line itself, so an error shows what they became; but if $argN was expanded, the
    kernel rewrites a copy, which the log doesn't show.
    """
    words = line[2:] if expanded is None else expanded
    words = counted(words, scope.gates)
    if scope.gates.dentry_types:
        words = _expand_dentries(words, scope.gates)
        if expanded is None:
            line[2:] = words
    return compile_all(words, scope)


def refused_register(scope: Scope, column: int) -> Refusal:
    """Return the refusal of %REG where there are no registers: before 7.3 the kernel logs two faults."""
    refusal = Refusal("BAD_VAR", column)
    if scope.gates.registers_refused_twice:
        second = Refusal("BAD_FETCH_ARG", column)
        second.before, refusal = refusal, second
    return refusal


def counted(words: list[str], gates: Gates) -> list[str]:
    """Return as many arguments as a probe may have; raise Refusal where the kernel doesn't just drop the others."""
    if len(words) > MAX_ARGUMENTS and gates.too_many_arguments is not None:
        raise Refusal(gates.too_many_arguments, 0, 2)
    return words[:MAX_ARGUMENTS]


def compile_all(
    words: list[str], scope: Scope, finished: Callable[[FetchArg], FetchArg] = lambda argument: argument
) -> tuple[FetchArg, ...]:
    """Compile the arguments of a line as they are written, finishing each before the next.  Raises Refusal."""
    arguments: list[FetchArg] = []
    names: set[str] = set()
    offset = 0
    for position, word in enumerate(words):
        try:
            argument = finished(compile_argument(word, position, offset, names, scope))
        except Refusal as refusal:
            refusal.token = position + 2
            if refusal.before is not None:
                refusal.before.token = position + 2
            raise
        arguments.append(argument)
        names.add(argument.name)
        offset += argument.size
    return tuple(arguments)


def read_creation(words: list[str], points: ProbePoints, pointer: Callable[[int], str], gates: Gates) -> Creation:
    """Read a p or r definition.

    `pointer` gives an address as printk's 0x%p shows it.  Raises Refusal, or Declined if the line isn't one.
    """
    head = words[0]
    if head[0] not in "pr" or len(words) < 2:
        raise Declined
    is_return = head[0] == "r"
    colon = head.find(":", 1)
    if is_digit(head, 1) and not is_return:
        raise Refusal(gates.maxactive_on_probe, 1, 0)
    maxactive = max(read_maxactive(head, colon), 0)  # a negative number means the default
    point, is_return = _read_point(words[1], gates, is_return=is_return)
    spot = points.find(point)
    returns = at_entry = False
    if point.symbol is not None:
        returns = is_return  # with an address the kernel never notes that it is a return probe
        if gates.uniqueness_first:
            _check_unique(spot, points, gates)
        entry = points.check_entry(spot)
        at_entry = entry == 0
        if entry == errno.EINVAL and is_return:
            raise Refusal("BAD_RETPROBE", 0, 1)
        if not gates.uniqueness_first:
            _check_unique(spot, points, gates)
    group, event = DEFAULT_GROUP, None
    if colon >= 0:
        group, event = read_names(head[colon + 1 :], colon + 1, gates, DEFAULT_GROUP)
    if event is None:
        event = _default_event(point, pointer, is_return=is_return, gates=gates)
    scope = Scope(returns, at_entry, gates, points.function(point), stack_size=points.stack_size)
    arguments = read_arguments(words, scope)
    return Creation(is_return, maxactive, group, event, spot, arguments)
