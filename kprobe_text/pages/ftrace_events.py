"""Fields of events of group ftrace -> the records that aren't hits of events: marks, stacks and functions."""

from collections.abc import Mapping
from typing import Any, Final

from kprobe_text.pages.bounds import FRAMES
from kprobe_text.pages.events import Known
from kprobe_text.pages.kallsyms import Kallsyms
from kprobe_text.text.records import CodeAddress, Function, Marker, RawMarker, Record, StackTrace, Value

# The function that a mark names: tracing_mark_write up to 6.15, write_marker_to_buffer from then on.
MARKS: Final = ("tracing_mark_write", "write_marker_to_buffer")


def special(
    known: Known,
    context: tuple[str, int, int, str, int],
    fields: Mapping[str, Value],
    tail: bytes,
    places: Kallsyms,
    after: tuple[Any, ...],
) -> Record | None:
    """Return the record; None if a field is missing, the text isn't a mark, or the stack is too long for a kernel's.

    ``context`` is task, pid, CPU, flags and time; ``after`` tgid, clock and raw; ``tail`` the bytes after the fields of
    known size.
    """
    tgid, clock, raw = after
    if known.special == "function":
        ip, parent = fields.get("ip"), fields.get("parent_ip")
        if isinstance(ip, int) and isinstance(parent, int):
            return Function(*context, places[ip], places[parent], tgid, clock, raw)
    elif known.special == "print":
        ip, text = fields.get("ip"), fields.get("buf")
        if isinstance(ip, int) and isinstance(text, str) and places[ip].symbol in ("", *MARKS):
            return Marker(*context, text.removesuffix("\n"), tgid, clock, raw)
    elif known.special == "raw_data":
        number = fields.get("id")
        if isinstance(number, int) and "buf" in fields:
            return RawMarker(*context, number, tail, tgid, clock, raw)
    else:
        caller, is_user = fields.get("caller"), known.special == "user_stack"
        if isinstance(caller, tuple) and not isinstance(caller, CodeAddress) and len(caller) <= FRAMES:
            return StackTrace(*context, _frames(caller, fields.get("size"), places), is_user, tgid, clock, raw)
    return None


def _frames(caller: tuple[Value, ...], size: object, places: Kallsyms) -> tuple[CodeAddress, ...]:
    """Return the frames up to the end of the stack: a frame of 0 or all ones, or the record's count."""
    frames = [address for address in caller if isinstance(address, int)]
    if isinstance(size, int) and 0 <= size < len(frames):
        frames = frames[:size]
    ends = [i for i, address in enumerate(frames) if address in (0, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)]
    return tuple(places[address] for address in (frames[: ends[0]] if ends else frames))
