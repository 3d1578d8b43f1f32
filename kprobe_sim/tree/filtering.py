"""The `filter` files of events and of systems; refusals go to the instance's error_log."""

from __future__ import annotations

import errno

from kprobe_sim.events.event import Event
from kprobe_sim.events.event_file import EventFile
from kprobe_sim.events.instance import Instance
from kprobe_sim.events.trace_array import TraceArray
from kprobe_sim.language.filters.errors import LOG_LOCATION, FilterRefused
from kprobe_sim.language.filters.filter_file import FilterState, group_text, write_filter, write_group_filter
from kprobe_sim.language.filters.predicate import Predicate, compile_filter
from kprobe_sim.language.filters.predicate_term import FilterContext
from kprobe_sim.language.primitives.refusal import refuse


def put_filter(file: EventFile, data: bytes) -> None:
    """Set an event's filter; a refused one still replaces the old filter, and lets everything pass."""
    if file.freed:
        raise refuse(errno.ENODEV)
    state = write_filter(data, tuple(file.event.filter_fields()), filter_context(file.instance))
    _adopt(file, state)
    if state.refused is not None:
        raise refuse(state.refused.errno or errno.EINVAL)


def group_filter_text(instance: Instance, system: str) -> bytes:
    """Return the text of a system's filter file, which all instances share."""
    return instance.tracing.events.filter_texts.get(system) or group_text(instance.machine.filter_gates)


def put_group_filter(instance: Instance, system: str, directory: object, data: bytes) -> None:
    """Set the filter of the events of a system.

    `directory` is what the event table had for the system when the file was opened.  Once the system's last event is
    gone, the file refuses any write with ENODEV, even if the system is back (apply_subsystem_event_filter()).
    """
    files = [instance.file(event) for event in instance.events(system)]
    fields = [tuple(file.event.filter_fields()) for file in files]
    group = write_group_filter(data, fields, filter_context(instance))
    events = instance.tracing.events
    if events.directory(system) is not directory:
        raise refuse(errno.ENODEV)
    for file, change in zip(files, group.changes, strict=True):
        if change is not None:
            _adopt(file, change)
    events.filter_texts[system] = group.shown
    if group.refused is not None:
        raise refuse(group.refused.errno)


def compile_for(instance: Instance, event: Event, text: str) -> Predicate:
    """Compile a filter of an event's records; a refusal is logged in the instance, and raised as OSError."""
    try:
        return compile_filter(
            text.encode("latin-1"), tuple(event.filter_fields()), **filter_context(instance)._asdict()
        )
    except FilterRefused as refused:
        instance.error_log.log(LOG_LOCATION, refused.log_message, refused.command, refused.log_position)
        raise


def filter_context(instance: TraceArray) -> FilterContext:
    """Return what compiling a filter needs to know of the instance's kernel."""
    symbols = instance.machine.symbols

    def function_range(function: str | int) -> tuple[int, int] | None:
        candidates = symbols.lookup(function) if isinstance(function, str) else [symbols.containing(function)]
        symbol = candidates[0] if candidates else None
        return None if symbol is None else (symbol.address, symbol.address + symbol.size)

    return FilterContext(instance.machine.filter_gates, instance.cpus, function_range, None)


def _adopt(file: EventFile, state: FilterState) -> None:
    if (file.filter is None) is not (state.predicate is None):
        file.instance.tracing.scratch.need(state.predicate is not None)
    file.filter = state.predicate
    file.filter_text = state.shown
    refused = state.refused
    if refused is not None:
        file.instance.error_log.log(LOG_LOCATION, refused.log_message, refused.command, refused.log_position)
