"""The kernel's parser of a probe's line before dynamic events: kprobe_events and uprobe_events up to 4.19.

A line defines one probe of one event, or deletes an event by its name; a definition replaces an event of that name.
Sources: create_trace_kprobe() and create_trace_uprobe() of 3.2 to 4.19; fixtures/definitions of these.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from kprobe_sim.builds.gates import Gates
from kprobe_sim.events.dyn_event import Deletion
from kprobe_sim.language.fetch.early_argument import compile_all_early, split_symbol
from kprobe_sim.language.fetch.expression import Scope
from kprobe_sim.language.primitives.kstrto import UINT_MAX, is_digit, is_name, kstrtouint, read_ulong
from kprobe_sim.language.primitives.refusal import Printed
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.probes.command import Creation
from kprobe_sim.probes.probe_point import ProbeLocation, ProbePoints

_MAX_NAME = 63
_MAX_ACTIVE = 4096


class FirstWord(NamedTuple):
    """The first word of a line: p, r or -, [GROUP/]EVENT, and maxactive, 0 where none was given."""

    letter: str
    group: str
    event: str | None
    maxactive: int


class Nothing(Exception):
    """The kernel accepts the line, which defines nothing (4.19 forgets to refuse a bad probe point)."""


def read_head(head: str, gates: Gates, group: str) -> FirstWord:
    """Read the first word; `group` is the default.  Raises Printed."""
    letter = head[:1]
    if letter not in ("p", "r", "-"):
        raise Printed(errno.EINVAL, "Probe definition must be started with 'p', 'r' or '-'.")
    event: str | None = None
    maxactive = 0
    if gates.early_maxactive:
        colon = head.find(":", 1)
        event = head[colon + 1 :] if colon >= 0 else None
        digits = head[1:colon] if colon >= 0 else head[1:]
        if letter == "r" and is_digit(digits, 0):
            maxactive = _maxactive(digits)
    elif head[1:2] == ":":
        event = head[2:]
    if event is not None:
        written, slash, rest = event.partition("/")
        if slash:
            group, event = written, rest
            if not group:
                raise Printed(errno.EINVAL, "Group name is not specified")
        if not event:
            raise Printed(errno.EINVAL, "Event name is not specified")
    return FirstWord(letter, group, event, maxactive)


def _maxactive(digits: str) -> int:
    try:
        number = kstrtouint(digits)
    except OSError as error:
        raise Printed(error.errno or errno.EINVAL, "Failed to parse maxactive.") from None
    if number > _MAX_ACTIVE:
        raise Printed(errno.E2BIG, f"Maxactive is too big ({number} > {_MAX_ACTIVE}).")
    return number


def early_deletion(head: FirstWord) -> Deletion:
    """Return which event a line deletes.  Raises Printed."""
    if head.event is None:
        raise Printed(errno.EINVAL, "Delete command needs an event name.")
    return Deletion(head.group, head.event, (), None)


def _address(text: str, gates: Gates, *, is_return: bool) -> ProbeLocation | None:
    """Read a PLACE that is an address; return None if it isn't.  Raises Printed."""
    try:
        point = ProbeLocation(None, 0, read_ulong(text, gates.word_size))
    except OSError:
        return None
    if is_return and not gates.return_addresses:
        raise Printed(errno.EINVAL, "Return probe point must be a symbol.")
    return point


def _read_point(text: str, gates: Gates, *, is_return: bool) -> ProbeLocation:
    """Read PLACE.  Raises Printed or Nothing."""
    if gates.address_or_symbol:
        point = _address(text, gates, is_return=is_return)
        if point is not None:
            return point
        message = "Failed to parse either an address or a symbol."
    elif is_digit(text, 0):
        if is_return:
            raise Printed(errno.EINVAL, "Return probe point must be a symbol.")
        try:
            return ProbeLocation(None, 0, read_ulong(text, gates.word_size))
        except OSError as error:
            raise Printed(error.errno or errno.EINVAL, "Failed to parse address.") from None
    else:
        message = "Failed to parse symbol."
    try:
        symbol, offset = split_symbol(text, signed=gates.signed_offsets)
    except OSError as error:
        raise Printed(error.errno or errno.EINVAL, message) from None
    if not 0 <= offset <= UINT_MAX and gates.signed_offsets:
        raise Nothing(message)
    if offset and is_return:
        raise Printed(
            errno.EINVAL,
            "Given offset is not valid for return probe."
            if gates.early_maxactive
            else "Return probe must be used without offset.",
        )
    return ProbeLocation(symbol, offset, 0)


def default_event(body: str, gates: Gates, *, is_return: bool) -> str:
    """Return the name of an event that has none."""
    name = f"{'r' if is_return else 'p'}_{body}"[:_MAX_NAME]
    if gates.address_or_symbol:
        for character in gates.sanitized:
            name = name.replace(character, "_")
    return name


def check_names(group: str, event: str, *, kind: str = "trace_probe") -> None:
    """Raise Printed if an event can't have that name."""
    if not is_name(event) or not is_name(group):
        raise Printed(errno.EINVAL, f"Failed to allocate {kind}.({-errno.EINVAL})")


def read_early(words: list[str], points: ProbePoints, pointer: Callable[[int], str], gates: Gates) -> Creation:
    """Read a definition of kprobe_events; `pointer` gives an address as printk's 0x%p shows it.

    Raises Printed, or Nothing for a line that defines nothing.
    """
    head = read_head(words[0], gates, "kprobes")
    if len(words) < 2:
        raise Printed(errno.EINVAL, "Probe point is not specified.")
    is_return = head.letter == "r"
    point = _read_point(words[1], gates, is_return=is_return)
    event = head.event
    if event is None:
        body = f"{point.symbol}_{point.offset}" if point.symbol is not None else pointer(point.address)
        event = default_event(body, gates, is_return=is_return)
    check_names(head.group, event)
    scope = Scope(is_return, False, gates, stack_size=points.stack_size)
    arguments = compile_all_early(words[2:], scope)
    return Creation(is_return, head.maxactive, head.group, event, points.find(point), arguments)


class Failure(NamedTuple):
    """Whether the kernel keeps a probe that it can't put in place, and what its log says."""

    kept: bool
    lines: tuple[tuple[str, str], ...]


def early_failure(point: ProbeLocation, number: int, shown: str, gates: Gates, *, is_notrace: bool) -> Failure:
    """Return what becomes of such a probe; `number` is the errno, `shown` the address as printk shows it."""
    if not gates.place_said:
        lines = [f"Could not insert probe({-number})"]
        if number == errno.EILSEQ:
            lines.append(f"Probing address({shown}) is not an instruction boundary.")
        return Failure(False, tuple(("trace_kprobe", line) for line in lines))
    if gates.unplaceable_taken and number == errno.EINVAL and (point.symbol is not None or point.address):
        return Failure(True, ())
    kept = number == errno.ENOENT and point.symbol is not None and ":" in point.symbol
    lines = [f"Could not insert probe at {point.symbol or 'unknown'}+{point.offset}: {-number}"]
    lines = lines if gates.insertion_said else []
    if kept:
        blank = " " if gates.spaced_target else ""
        lines.append(f"This probe might be able to register after{blank}target module is loaded. Continue.")
    elif number == errno.EILSEQ:
        lines.append(f"Probing address({shown}) is not an instruction boundary.")
    elif is_notrace and not gates.insertion_said:
        lines = [f"Could not probe notrace function {point.symbol or 'unknown'}"]
    return Failure(kept, tuple(("trace_kprobe", line) for line in lines))
