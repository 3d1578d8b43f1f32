"""The kernel's parser of a probe's line before dynamic events: kprobe_events and uprobe_events up to 4.19.

A line defines one probe of one event, or deletes an event by its name; a definition of one that is there replaces it.
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
    """The line is taken, and defines nothing (4.19 forgets to say that a place is bad)."""


def read_head(head: str, gates: Gates, group: str) -> FirstWord:
    """Read the first word; `group` counts where none is written.  Raises Printed."""
    letter = head[:1]
    if letter not in ("p", "r", "-"):
        raise Printed(errno.EINVAL, "Probe definition must be started with 'p', 'r' or '-'.")
    event: str | None = None
    maxactive = 0
    if gates.early_maxactive:
        at = head.find(":", 1)
        event = head[at + 1 :] if at >= 0 else None
        digits = head[1:at] if at >= 0 else head[1:]
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
    """Read a PLACE that is an address; None if it is none.  Raises Printed."""
    try:
        place = ProbeLocation(None, 0, read_ulong(text, gates.word_size))
    except OSError:
        return None
    if is_return and not gates.return_addresses:
        raise Printed(errno.EINVAL, "Return probe point must be a symbol.")
    return place


def _place(text: str, gates: Gates, *, is_return: bool) -> ProbeLocation:
    """Read PLACE.  Raises Printed or Nothing."""
    if gates.address_or_symbol:
        place = _address(text, gates, is_return=is_return)
        if place is not None:
            return place
        said = "Failed to parse either an address or a symbol."
    elif is_digit(text, 0):
        if is_return:
            raise Printed(errno.EINVAL, "Return probe point must be a symbol.")
        try:
            return ProbeLocation(None, 0, read_ulong(text, gates.word_size))
        except OSError as error:
            raise Printed(error.errno or errno.EINVAL, "Failed to parse address.") from None
    else:
        said = "Failed to parse symbol."
    try:
        symbol, offset = split_symbol(text, signed=gates.signed_offsets)
    except OSError as error:
        raise Printed(error.errno or errno.EINVAL, said) from None
    if not 0 <= offset <= UINT_MAX and gates.signed_offsets:
        raise Nothing(said)
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

    Raises Printed, or Nothing for a line that is taken for nothing.
    """
    head = read_head(words[0], gates, "kprobes")
    if len(words) < 2:
        raise Printed(errno.EINVAL, "Probe point is not specified.")
    is_return = head.letter == "r"
    place = _place(words[1], gates, is_return=is_return)
    event = head.event
    if event is None:
        body = f"{place.symbol}_{place.offset}" if place.symbol is not None else pointer(place.address)
        event = default_event(body, gates, is_return=is_return)
    check_names(head.group, event)
    scope = Scope(is_return, False, gates, stack_size=points.stack_size)
    arguments = compile_all_early(words[2:], scope)
    return Creation(is_return, head.maxactive, head.group, event, points.find(place), arguments)


class Failure(NamedTuple):
    """Whether a probe that can't be put in place is kept all the same, and what the kernel's log says."""

    kept: bool
    lines: tuple[tuple[str, str], ...]


def early_failure(place: ProbeLocation, number: int, shown: str, gates: Gates, *, is_notrace: bool) -> Failure:
    """Return what becomes of it; `number` is the errno of why it can't, `shown` the address as printk shows it."""
    if not gates.place_said:
        lines = [f"Could not insert probe({-number})"]
        if number == errno.EILSEQ:
            lines.append(f"Probing address({shown}) is not an instruction boundary.")
        return Failure(False, tuple(("trace_kprobe", line) for line in lines))
    if gates.unplaceable_taken and number == errno.EINVAL and (place.symbol is not None or place.address):
        return Failure(True, ())
    kept = number == errno.ENOENT and place.symbol is not None and ":" in place.symbol
    lines = [f"Could not insert probe at {place.symbol or 'unknown'}+{place.offset}: {-number}"]
    lines = lines if gates.insertion_said else []
    if kept:
        blank = " " if gates.spaced_target else ""
        lines.append(f"This probe might be able to register after{blank}target module is loaded. Continue.")
    elif number == errno.EILSEQ:
        lines.append(f"Probing address({shown}) is not an instruction boundary.")
    elif is_notrace and not gates.insertion_said:
        lines = [f"Could not probe notrace function {place.symbol or 'unknown'}"]
    return Failure(kept, tuple(("trace_kprobe", line) for line in lines))
