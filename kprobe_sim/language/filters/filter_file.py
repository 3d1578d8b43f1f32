"""Writes to a `filter` file: that of one event, and that of a group of events.

Source: apply_event_filter(), apply_subsystem_event_filter() and, before 4.17, replace_system_preds() in
kernel/trace/trace_events_filter.c, event_filter_write() in kernel/trace/trace_events.c; fixtures/filters.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence

from kprobe_sim.builds.gates import FilterGates
from kprobe_sim.builds.page import PAGE_SIZE
from kprobe_sim.language.filters.errors import Fault, FilterRefused, shown
from kprobe_sim.language.filters.predicate import Predicate, compile_filter, is_clearing, stored_text
from kprobe_sim.language.filters.predicate_term import FilterContext
from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.records.field import Field

GROUP_TEXT = (
    b"### global filter ###\n"
    b"# Use this to set filters for multiple events.\n"
    b"# Only events with the given fields will be affected.\n"
    b"# If no events are modified, an error message will be displayed here\n"
)


class FilterState(NamedTuple):
    """The filter of one event file.

    `predicate` None: all records pass.  `shown` is the text of the file.  `refused`: what to put in error_log and, for
    the file of one event, to raise; the old filter is gone even so.
    """

    predicate: Predicate | None = None
    shown: bytes = b"none\n"
    refused: FilterRefused | None = None


NO_FILTER = FilterState()


class GroupFilter(NamedTuple):
    """The effect of a write to a group's file.

    `changes`: the new filter of each event; None where the event keeps its filter.  `shown` is the new text of the
    group's file.  `refused`: what to raise.
    """

    changes: Sequence[FilterState | None]
    shown: bytes
    refused: FilterRefused | None = None


# before 4.17 the kernel finds such a fault before it looks at any event
_OF_THE_TEXT = (Fault.INVALID_OP, Fault.UNBALANCED, Fault.OPERAND_TOO_LONG)


def write_filter(data: bytes, fields: Sequence[Field], context: FilterContext) -> FilterState:
    """Return the event's filter after one write(2) to its `filter` file.

    Raises OSError EINVAL, and nothing changes, if `data` fills a page; a refused text doesn't raise here: it is the new
    state.
    """
    _check_size(data)
    if is_clearing(data):
        return NO_FILTER
    try:
        predicate = compile_filter(data, fields, **context._asdict())
    except FilterRefused as refused:
        return FilterState(None, refused.readback, refused)
    return FilterState(predicate, shown(predicate.text, context.gates.message_space))


def group_text(gates: FilterGates) -> bytes:
    """Return the text of a group's file while nothing was refused."""
    return b"none\n" if gates.group_filter_shown else GROUP_TEXT


def write_group_filter(data: bytes, events: Iterable[Sequence[Field]], context: FilterContext) -> GroupFilter:
    """Return what one write(2) to the group's file does to each event of the group, given by its fields.

    Kernels since 4.17 accept any text: each event that can't take it loses its filter and adds an entry to error_log.
    Raises OSError EINVAL as `write_filter` does.
    """
    _check_size(data)
    states = [write_filter(data, fields, context) for fields in events]
    gates = context.gates
    if gates.group_filter_refused and not is_clearing(data):
        return _early_group(data, states, gates)
    bad = FilterRefused(Fault.BAD_SUBSYS_FILTER, 0, stored_text(data), gates.message_space)
    changes = [FilterState(None, bad.readback, bad) if state.refused else state for state in states]
    return GroupFilter(changes, group_text(gates))


def _early_group(data: bytes, states: Sequence[FilterState], gates: FilterGates) -> GroupFilter:
    refusals = [state.refused for state in states if state.refused]
    if len(refusals) < len(states):
        taken = [None if state.refused else state for state in states]
        text = stored_text(data)
        return GroupFilter(taken, shown(text, gates.message_space) if gates.group_filter_shown else GROUP_TEXT)
    fault = refusals[0].fault if refusals and refusals[0].fault in _OF_THE_TEXT else Fault.BAD_SUBSYS_FILTER
    refused = FilterRefused(fault, 0, stored_text(data), gates.message_space)
    return GroupFilter([None] * len(states), refused.readback, refused)


def _check_size(data: bytes) -> None:
    if len(data) >= PAGE_SIZE:
        raise refuse(errno.EINVAL)
