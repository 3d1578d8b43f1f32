"""The expression of a fetch argument: a source and the dereferences around it.

Columns count as the kernel counts them, oddities included: the `u` of `+u8(` isn't counted, and the closing brace is
the last one, whatever follows it.  Sources: kernel reference 1.5; fixtures/definitions.
"""

from __future__ import annotations

import errno
from enum import Enum
from typing import NamedTuple

from kprobe_sim.btf_arguments import Found, Function, find_variable
from kprobe_sim.gates import Gates
from kprobe_sim.kstrto import is_digit, is_name, kstrtol, kstrtoul
from kprobe_sim.refusal import Refusal

REGISTERS = frozenset(
    {
        *("r15", "r14", "r13", "r12", "r11", "r10", "r9", "r8", "bx", "cx", "dx", "si", "di", "bp", "ax"),
        *("orig_ax", "ip", "cs", "flags", "sp", "ss"),
    }
)
LAST_SLOT = 15  # an argument compiles to at most 16 fetch instructions, the last of which only marks the end
_MAX_STACK = 2048  # words of a 16 KiB kernel stack


class From(Enum):
    """Where a fetch starts."""

    REGISTER = "register"
    STACK = "stack"  # the n-th word
    STACK_POINTER = "stack pointer"
    RETURN_VALUE = "return value"
    ARGUMENT = "argument"  # the n-th argument of the function, from 0
    ENTRY_ARGUMENT = "entry argument"  # the same, kept until the function returns
    IMMEDIATE = "immediate"
    SYMBOL = "symbol"  # an address found when the probe is registered
    COMM = "comm"
    TEXT = "text"  # an immediate string


class Source(NamedTuple):
    """The start of a fetch; `text` is a register's or symbol's name or the string, `number` an index or a value."""

    kind: From
    text: str = ""
    number: int = 0


class Deref(NamedTuple):
    """One step through memory: read at value + offset; `user` with the user-space reader."""

    offset: int
    user: bool = False


class Expression(NamedTuple):
    """A read expression: dereferences innermost first; `slot` is the index of the last fetch instruction.

    `type` is what BTF says that it has (a number of the profile's types), `bits` (width, position) if it is a bitfield.
    """

    source: Source
    derefs: tuple[Deref, ...]
    slot: int
    type: int | None = None
    bits: tuple[int, int] = (0, 0)


class Scope(NamedTuple):
    """What an argument may refer to at its probe point."""

    is_return: bool
    at_entry: bool
    gates: Gates
    function: Function = Function()


def _by_name(text: str, scope: Scope, column: int) -> Expression:
    """Read an argument by its name in C, $retval among them."""
    found: Found = find_variable(text, scope.function, column, is_return=scope.is_return)
    if len(found.offsets) >= LAST_SLOT:
        raise Refusal(errno.EINVAL, "TOO_MANY_OPS", column)
    if found.parameter is None:
        source = Source(From.RETURN_VALUE)
    else:
        source = Source(From.ENTRY_ARGUMENT if scope.is_return else From.ARGUMENT, number=found.parameter)
    derefs = tuple([Deref(offset) for offset in found.offsets])
    return Expression(source, derefs, len(derefs), found.type, found.bits)


def _variable(text: str, scope: Scope, column: int) -> Source:
    bad = Refusal(errno.EINVAL, "BAD_VAR", column)
    if text == "retval":
        if not scope.is_return:
            raise Refusal(errno.EINVAL, "RETVAL_ON_PROBE", column)
        return Source(From.RETURN_VALUE)
    if text.startswith("stack"):
        if text == "stack":
            return Source(From.STACK_POINTER)
        if not is_digit(text, 5):
            raise bad
        return Source(From.STACK, number=_index(text[5:], "BAD_STACK_NUM", column, 0, scope.gates))
    if text in ("comm", "COMM"):
        return Source(From.COMM)
    if text.startswith("arg"):
        reachable = scope.gates.entry_arguments_at_return if scope.is_return else scope.at_entry
        if reachable or scope.gates.names_missing_entry:
            number = _index(text[3:], "BAD_ARG_NUM", column, 1, scope.gates) - 1
            if reachable:
                return Source(From.ENTRY_ARGUMENT if scope.is_return else From.ARGUMENT, number=number)
            raise Refusal(errno.EINVAL, "NOFENTRY_ARGS", column)
    raise bad


def _index(text: str, message: str, column: int, least: int, gates: Gates) -> int:
    try:
        number = kstrtoul(text, 10)
    except OSError as error:
        overflow = error.errno == errno.ERANGE and gates.variable_overflow_is_told
        raise Refusal(errno.ERANGE if overflow else errno.EINVAL, "BAD_VAR", column) from None
    if not least <= number <= _MAX_STACK:
        raise Refusal(errno.EINVAL, message, column)
    return number


def _number(text: str, message: str, column: int, *, signed: bool) -> int:
    try:
        return kstrtol(text) if signed else kstrtoul(text)
    except OSError as error:
        raise Refusal(error.errno or errno.EINVAL, message, column) from None


def _memory(text: str, column: int) -> Expression:
    """Read what follows an @: it always ends in one read of memory."""
    if is_digit(text, 0):
        address = _number(text, "BAD_MEM_ADDR", column, signed=False)
        return Expression(Source(From.IMMEDIATE, number=address), (Deref(0),), 1)
    if text.startswith("+"):
        raise Refusal(errno.EINVAL, "FILE_ON_KPROBE", column)
    return Expression(Source(From.SYMBOL, text), (Deref(0),), 2)


def _immediate(text: str, column: int) -> Source:
    if text.startswith('"'):
        if len(text) == 1 or not text.endswith('"'):
            raise Refusal(errno.EINVAL, "IMMSTR_NO_CLOSE", column + 1 + len(text))
        return Source(From.TEXT, text[1:-1])
    if is_digit(text, 0):
        return Source(From.IMMEDIATE, number=_number(text, "BAD_IMM", column + 1, signed=False))
    if text.startswith("-"):
        return Source(From.IMMEDIATE, number=_number(text, "BAD_IMM", column + 1, signed=True))
    if text.startswith("+"):
        return Source(From.IMMEDIATE, number=_number(text[1:], "BAD_IMM", column + 1, signed=True))
    raise Refusal(errno.EINVAL, "BAD_IMM", column + 1)


def _dereference(text: str, scope: Scope, column: int, level: int) -> Expression:
    user = text[1:2] == "u"
    if user:
        text = text[0] + text[2:]
    if text.startswith("+"):
        text = text[1:]
    number, brace, rest = text.partition("(")
    if not brace:
        raise Refusal(errno.EINVAL, "DEREF_NEED_BRACE", column)
    offset = _number(number, "BAD_DEREF_OFFS", column, signed=True)
    column += len(number) + 1 + (0 if number.startswith("-") else 1)
    inner, brace, _ = rest.rpartition(")")
    if not brace:
        raise Refusal(errno.EINVAL, "DEREF_OPEN_BRACE", column + len(rest))
    if scope.gates.nesting is not None and level >= scope.gates.nesting:
        raise Refusal(errno.E2BIG, "TOO_MANY_NESTED", column)
    expression = read_expression(inner, scope, column, level + 1)
    if not expression.derefs and expression.source.kind in (From.COMM, From.TEXT):
        raise Refusal(errno.EINVAL, "COMM_CANT_DEREF", column)
    if expression.slot + 1 == LAST_SLOT:
        raise Refusal(errno.EINVAL, "TOO_MANY_OPS", column)
    return Expression(expression.source, (*expression.derefs, Deref(offset, user)), expression.slot + 1)


def read_expression(text: str, scope: Scope, column: int, level: int = 1) -> Expression:
    """Read an expression (without :TYPE) that stands at `column` of its token.  Raises Refusal.

    `level` counts the expressions around it, itself included.
    """
    first = text[:1]
    if first == "$":
        if scope.gates.btf and text.startswith("$retval"):
            if not scope.is_return:
                raise Refusal(errno.EINVAL, "RETVAL_ON_PROBE", column)
            return _by_name(text, scope, column)
        return Expression(_variable(text[1:], scope, column), (), 0)
    if first == "%":
        if text[1:] not in REGISTERS:
            raise Refusal(errno.EINVAL, "BAD_REG_NAME", column)
        return Expression(Source(From.REGISTER, text[1:]), (), 0)
    if first == "@":
        return _memory(text[1:], column)
    if first in ("+", "-"):
        return _dereference(text, scope, column, level)
    if first == "\\":
        return Expression(_immediate(text[1:], column), (), 0)
    if scope.gates.btf and is_name(first):
        if not scope.is_return and not scope.at_entry:
            raise Refusal(errno.EINVAL, "NOSUP_BTFARG", column)
        return _by_name(text, scope, column)
    if first == "(" and scope.gates.event_typecasts:
        raise Refusal(errno.EINVAL, "TYPECAST_NOT_EVENT", column)
    raise Refusal(errno.EINVAL, "BAD_FETCH_ARG", column)
