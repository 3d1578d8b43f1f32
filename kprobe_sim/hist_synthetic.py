"""Synthetic events as histograms make them happen: which values fit, and the record that they become.

Sources: check_synth_field() in trace_events_hist.c, trace_event_raw_event_synth() and print_synth_event() in
trace_events_synth.c of 6.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kprobe_sim.hist_field import STACKTRACE, HistField, Sample, Value


class FieldType(Protocol):
    """A field of a synthetic event."""

    @property
    def type(self) -> str: ...

    @property
    def size(self) -> int: ...

    @property
    def signed(self) -> bool: ...

    @property
    def is_string(self) -> bool: ...

    @property
    def is_dynamic(self) -> bool: ...

    @property
    def is_stack(self) -> bool: ...


class Target(Protocol):
    """A synthetic event that a histogram makes happen."""

    @property
    def types(self) -> Sequence[FieldType]: ...

    def hold(self, by: int) -> None:
        """Keep it from being removed, or no longer."""
        ...

    def happen(self, values: Sequence[Value], sample: Sample) -> None:
        """Let it happen, at a hit of another event."""
        ...


def fits(target: Target, variable: HistField, place: int) -> bool:
    """True if a variable can be the value of a field."""
    if place >= len(target.types):
        return False
    field = target.types[place]
    if "char[" in variable.type and field.is_string and field.is_dynamic:
        return True
    if bool(variable.flags & STACKTRACE) != field.is_stack:
        return False
    if field.is_stack or field.type == variable.type:
        return True
    return field.size == variable.size and (field.is_string or field.signed == variable.signed)
