"""Typecasts in a fetch argument: (STRUCT[,FIELD])VARIABLE->FIELD, (STRUCT)(EXPRESSION)->FIELD.

Columns are the kernel's.  Source: kernel/trace/trace_probe.c of 7.3 (handle_typecast,
parse_btf_casttype, unwind_parse_states).
"""

from __future__ import annotations

from kprobe_sim.builds.prototypes import PrototypeTable
from kprobe_sim.language.fetch.btf_arguments import Path, find_field, follow_fields
from kprobe_sim.language.primitives.kstrto import is_digit
from kprobe_sim.language.primitives.refusal import Refusal
from kprobe_sim.named_tuple import NamedTuple

PER_CPU_POINTER = "this_cpu_ptr("
PER_CPU_READ = "this_cpu_read("


class Typecast(NamedTuple):
    """The parts of a typecast; columns are those of the token."""

    type: str  # STRUCT[,FIELD]
    type_column: int
    inner: str  # what is cast
    inner_column: int
    fields: str
    fields_column: int


def _matching(text: str, start: int) -> int:
    """Return the position of the brace that closes the first one at or after `start`, -1 if there is none."""
    depth = 0
    for position in range(start, len(text)):
        if text[position] == "(":
            depth += 1
        elif text[position] == ")":
            depth -= 1
            if depth == 0:
                return position
    return -1


def _close_of_nested(text: str, start: int, column: int) -> int:
    """Return the position of the closing brace of (EXPRESSION)->.  Raises Refusal."""
    close = _matching(text, start)
    if close < 0:
        raise Refusal("DEREF_OPEN_BRACE", column + start)
    _expect_arrow(text, close + 1, column)
    return close


def _end_of_call(text: str, start: int, column: int) -> int:
    """Return the end of +OFFSET(...) or this_cpu_...(...).  Raises Refusal."""
    opened = text.find("(", start + 1)
    if opened < 0:
        raise Refusal("DEREF_NEED_BRACE", column + start)
    close = _matching(text, opened)
    if close < 0:
        raise Refusal("DEREF_OPEN_BRACE", column + len(text))
    _expect_arrow(text, close + 1, column)
    return close + 1


def _end_of_variable(text: str, start: int, column: int) -> int:
    """Return the end of a variable, a register or an address: its arrow.  Raises Refusal."""
    if text.startswith("@", start):
        signs = (text.find("+", start), text.find("-", start))
        sign = min((position for position in signs if position >= 0), default=-1)
        if sign >= 0 and is_digit(text, sign + 1):
            raise Refusal("TYPECAST_SYM_OFFSET", column + start)
    end = text.find("-", start)
    if end < 0 or text[end + 1 : end + 2] != ">":
        raise Refusal("TYPECAST_REQ_FIELD", column + len(text))
    return end


def _expect_arrow(text: str, position: int, column: int) -> None:
    if text[position : position + 2] != "->":
        raise Refusal("TYPECAST_REQ_FIELD", column + position)


def read_typecast(text: str, column: int) -> Typecast:
    """Split a typecast; `text` starts with its brace, at `column`.  Raises Refusal."""
    end = text.find(")")
    if end < 0:
        raise Refusal("DEREF_OPEN_BRACE", column + len(text))
    start = end + 1  # of what is cast
    first = text[start : start + 1]
    if first == "(":
        close = _close_of_nested(text, start, column)
        arrow = close + 1
        start += 1
    elif first in ("+", "-") or text.startswith((PER_CPU_POINTER, PER_CPU_READ), start):
        close = arrow = _end_of_call(text, start, column)
    else:
        close = arrow = _end_of_variable(text, start, column)
    fields = arrow + 2
    return Typecast(text[1:end], column + 1, text[start:close], column + start, text[fields:], column + fields)


def resolve_typecast(cast: Typecast, types: PrototypeTable | None, room: int) -> Path:
    """Find where the fields of a typecast lead, from the value that is cast.  Raises Refusal.

    `room` is the number of instructions that the fetch may still have.
    """
    name, comma, option = cast.type.partition(",")
    column = cast.type_column
    struct = None if types is None else types.struct(name)
    if types is None or struct is None:
        raise Refusal("NO_PTR_STRCT", column)
    prefix = 0
    if comma:
        bits, _, _, rest, column = find_field(types, struct, option, column + len(name) + 1)
        if bits % 8:
            raise Refusal("TYPECAST_NOT_ALIGNED", column)
        if rest is not None:
            raise Refusal("TYPECAST_BAD_ARROW", column - 2)
        prefix = bits // 8
    path = follow_fields(types, cast.fields, cast.fields_column, struct=struct, room=room)
    return path._replace(offsets=(path.offsets[0] - prefix, *path.offsets[1:]))
