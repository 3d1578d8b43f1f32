"""One fetch argument of a probe: NAME=EXPR:TYPE, parsed into what is fetched, from where, and how it is stored.

The order of the checks is the kernel's, because the first fault decides errno, message and column.
Sources: docs/kernel/arguments.md, docs/kernel/types.md; fixtures/definitions.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from enum import Enum

from kprobe_sim.language.fetch.btf_arguments import LAST_SLOT, is_characters, points_to_characters, type_name
from kprobe_sim.language.fetch.expression import Deref, Expression, From, Scope, read_expression
from kprobe_sim.language.fetch.types import STRING_TYPE, FetchType, find_type
from kprobe_sim.language.primitives.kstrto import is_name, kstrtouint, simple_strtoul
from kprobe_sim.language.primitives.refusal import Refusal
from kprobe_sim.named_tuple import NamedTuple

MAX_ARGUMENTS = 128
_MAX_NAME = 32
_MAX_ARRAY = 64
_MAX_EVENT_SIZE = 3072
RESERVED = frozenset(
    {
        *("common_type", "common_flags", "common_preempt_count", "common_pid", "common_tgid"),
        *("__probe_ip", "__probe_ret_ip", "__probe_func"),
    }
)
_SYMSTR_SOURCES = (From.REGISTER, From.STACK, From.RETURN_VALUE, From.ARGUMENT, From.FIELD)
_STRING_SOURCES = (From.IMMEDIATE, From.COMM, From.TEXT, From.FIELD)


class Store(Enum):
    """How the fetched value is stored in the record."""

    RAW = "raw"  # the value itself
    MEMORY = "memory"  # what the last dereference reads
    USER_MEMORY = "user memory"
    STRING = "string"
    USER_STRING = "user string"
    SYMBOL_NAME = "symbol name"


class FetchArg(NamedTuple):
    """A compiled argument.

    `length` is that of an array, 0 for none; `offset` and `size` are bytes within the arguments of the record.
    `text` is the expression as written, with its type.  `last_is_stored`: the store does the last dereference itself
    (memory and plain strings); otherwise it works on the value after all dereferences.  `bits` is a bitfield's
    (width, position).
    """

    name: str
    text: str
    type: FetchType
    length: int
    expression: Expression
    store: Store
    last_is_stored: bool
    bits: tuple[int, int] | None
    offset: int
    size: int

    @property
    def is_dynamic(self) -> bool:
        """True for strings, whose text comes after the fixed part of the record."""
        return self.type.is_string


class _TypeText(NamedTuple):
    text: str | None  # None: no type given
    column: int  # where a fault of the type is shown
    length: int


def _split_type(body: str, column: int) -> tuple[str, _TypeText]:
    """Split EXPR from TYPE and array suffix."""
    colon = body.find(":")
    if colon < 0:
        return body, _TypeText(None, column, 0)
    start = colon + 1
    bracket = body.find("[", start)
    if bracket < 0:
        return body[:colon], _TypeText(body[start:], column + start, 0)
    close = body.find("]", bracket + 1)
    if close < 0:
        raise Refusal("ARRAY_NO_CLOSE", column + len(body))
    if close + 1 != len(body):
        raise Refusal("BAD_ARRAY_SUFFIX", column + close + 1)
    try:
        count = kstrtouint(body[bracket + 1 : close])
    except OSError:
        count = 0
    if not count:
        raise Refusal("BAD_ARRAY_NUM", column + bracket + 1)
    if count > _MAX_ARRAY:
        raise Refusal("ARRAY_TOO_BIG", column + bracket + 1)
    return body[:colon], _TypeText(body[start:bracket], column + start, count)


def _choose_type(expression: str, written: _TypeText, scope: Scope) -> FetchType:
    sources = scope.sources
    if (sources is None or not sources.comm_has_any_type) and (
        expression in ("$comm", "$COMM") or expression.startswith('\\"')
    ):
        if written.length or written.text not in (None, "string"):
            raise Refusal(scope.gates.string_type_message, written.column)
        return STRING_TYPE
    found = find_type(written.text, scope.gates)
    if found is None or (sources is not None and written.text in sources.unknown_types):
        raise Refusal("BAD_TYPE", written.column)
    return found


def _string_store(
    fetch_type: FetchType, length: int, expression: Expression, type_column: int
) -> tuple[Store, bool, int]:
    """Return how a string is stored, whether the store does the last dereference, and its slot."""
    read = expression.read
    kind = None if expression.derefs else expression.source.kind
    symbol_name = fetch_type.name == "symstr"
    if symbol_name:
        if read.user if read else kind not in _SYMSTR_SOURCES:
            raise Refusal("BAD_SYMSTRING", type_column)
    elif not read and kind not in _STRING_SOURCES:
        raise Refusal("BAD_STRING", type_column)
    slot = expression.slot
    takes_slot = symbol_name or not read or length > 0
    if takes_slot:
        slot += 1
        if slot == LAST_SLOT:
            raise Refusal("TOO_MANY_OPS", expression.column)
    if fetch_type.name == "ustring" or (read and not takes_slot and read.user):
        return Store.USER_STRING, not takes_slot, slot
    return (Store.SYMBOL_NAME if symbol_name else Store.STRING), not takes_slot, slot


def _bitfield(written: _TypeText, size: int, slot: int) -> tuple[int, int] | None:
    """Read bWIDTH@POSITION/SIZE; the size was checked before."""
    text = written.text
    if text is None or not text.startswith("b"):
        return None
    bad = Refusal("BAD_BITFIELD", written.column)
    width, end = simple_strtoul(text, 1)
    if not width or text[end : end + 1] != "@":
        raise bad
    position, after = simple_strtoul(text, end + 1)
    if after == end + 1 or text[after : after + 1] != "/" or slot + 1 == LAST_SLOT or width + position > size * 8:
        raise bad
    return width, position


def _bits(written: _TypeText, size: int, expression: Expression, slot: int) -> tuple[int, int] | None:
    """Return the width and position of the bits to take: the written ones, else those of BTF's bitfield."""
    bits = _bitfield(written, size, slot)
    if written.text is None and (expression.bits[0] % 8 or expression.bits[1]):
        bits = expression.bits
        if slot + 1 == LAST_SLOT:
            raise Refusal("TOO_MANY_OPS", expression.column)
    return bits


def _number_store(expression: Expression) -> tuple[Store, bool, int]:
    """Return how a number is stored, whether the store does the last dereference, and its slot."""
    if read := expression.read:
        return Store.USER_MEMORY if read.user else Store.MEMORY, True, expression.slot
    slot = expression.slot + 1
    if slot == LAST_SLOT:
        raise Refusal("TOO_MANY_OPS_VALUE", expression.column)
    return Store.RAW, False, slot


def _adapt(
    fetch_type: FetchType, written: _TypeText, expression: Expression, scope: Scope
) -> tuple[FetchType, Expression]:
    """Use the type that BTF gives, or, for a string, add the read through a char *."""
    types, kind = scope.function.types, expression.type
    if types is None or kind is None:
        return fetch_type, expression
    if written.text is None:
        return find_type(type_name(types, kind), scope.gates) or fetch_type, expression
    if "string" not in written.text or is_characters(types, kind):
        return fetch_type, expression
    if not points_to_characters(types, kind):
        raise Refusal("BAD_TYPE4STR", expression.column)
    if expression.slot + 1 == LAST_SLOT:
        raise Refusal("TOO_MANY_OPS_VALUE", expression.column)
    derefs = (*expression.derefs, Deref(0, written.text.startswith("u")))
    return fetch_type, expression._replace(derefs=derefs, slot=expression.slot + 1)


def _compile_body(name: str, body: str, column: int, offset: int, scope: Scope) -> FetchArg:
    gates = scope.gates
    if len(body) > gates.argument_size:
        raise Refusal("ARG_TOO_LONG", column)
    if not body:
        raise Refusal("NO_ARG_BODY", column)
    text, written = _split_type(body, column)
    fetch_type = _choose_type(text, written, scope)
    size = fetch_type.size * (written.length or 1)
    most = _MAX_EVENT_SIZE if gates.event_size_limited else sys.maxsize
    if offset + size > most and not gates.caret_shift:  # later kernels check the size after the expression
        raise Refusal("EVENT_TOO_BIG", column)
    expression = read_expression(text, scope, column)
    if expression.type is not None:
        fetch_type, expression = _adapt(fetch_type, written, expression, scope)
        size = fetch_type.size * (written.length or 1)
    if offset + size > most:
        raise Refusal("EVENT_TOO_BIG", expression.column)
    type_column = written.column + expression.column - column
    written = written._replace(column=type_column)
    if fetch_type.is_string:
        store, stored, slot = _string_store(fetch_type, written.length, expression, type_column)
    else:
        store, stored, slot = _number_store(expression)
    bits = _bits(written, fetch_type.size, expression, slot)
    if written.length:
        if store in (Store.RAW, Store.USER_MEMORY, Store.SYMBOL_NAME):
            raise Refusal("BAD_STRING", type_column)
        if slot + (bits is not None) + 1 == LAST_SLOT:
            raise Refusal("TOO_MANY_OPS_LOOP", expression.column)
    return FetchArg(name, body, fetch_type, written.length, expression, store, stored, bits, offset, size)


def compile_argument(token: str, position: int, offset: int, names: Collection[str], scope: Scope) -> FetchArg:
    """Compile argument number `position` (from 0), whose field is at `offset` of the record's arguments.

    `names` are those of the arguments before it.  Raises Refusal with the column within the token.
    """
    name, equals, body = token.partition("=")
    if equals:
        if len(name) > _MAX_NAME:
            raise Refusal("ARG_NAME_TOO_LONG")
        if not name:
            raise Refusal("NO_ARG_NAME")
        column = len(name) + 1
    else:
        name, body, column = f"arg{position + 1}", token, 0
        if scope.gates.btf and is_name(variable := token.partition(":")[0]):
            name = variable
    if not is_name(name):
        raise Refusal("BAD_ARG_NAME")
    if name in RESERVED or name in names:
        raise Refusal("USED_ARG_NAME")
    return _compile_body(name, body, column, offset, scope)
