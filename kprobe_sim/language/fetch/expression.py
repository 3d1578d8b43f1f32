"""The expression of a fetch argument: a source and the dereferences around it.

Columns are the kernel's, oddities included: the `u` of `+u8(` isn't counted, and the closing brace is the last one,
whatever follows it.  Sources: docs/kernel/arguments.md#dereferences; fixtures/definitions.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from enum import Enum
from typing import Protocol

from kprobe_sim.builds.gates import Gates
from kprobe_sim.builds.page import STACK_SIZE
from kprobe_sim.language.fetch.btf_arguments import LAST_SLOT, Function, find_variable, follow_fields, split_variable
from kprobe_sim.language.fetch.typecast import PER_CPU_POINTER, PER_CPU_READ, read_typecast, resolve_typecast
from kprobe_sim.language.primitives.kstrto import is_digit, is_name, kstrtol, kstrtoul
from kprobe_sim.language.primitives.refusal import Refusal
from kprobe_sim.named_tuple import NamedTuple

_SHARED = ("bx", "cx", "dx", "si", "di", "bp", "ax", "orig_ax", "ip", "cs", "flags", "sp", "ss")
REGISTERS = frozenset(("r15", "r14", "r13", "r12", "r11", "r10", "r9", "r8", *_SHARED))
I386_REGISTERS = frozenset((*_SHARED, "ds", "es", "fs", "gs"))  # regoffset_table in arch/x86/kernel/ptrace.c
ARGUMENT_REGISTERS = ("di", "si", "dx", "cx", "r8", "r9")  # System V x86-64, as the kernel's $argN
_WORD = 8  # bytes


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
    CURRENT = "current"  # the address of the task's task_struct
    FIELD = "field"  # a field of the event that an event probe is attached to
    FILE_OFFSET = "file offset"  # the address at which that offset of a uprobe's file is mapped
    COMM = "comm"
    TEXT = "text"  # an immediate string


class Source(NamedTuple):
    """The start of a fetch; `text` is a register's or symbol's name or the string, `number` an index or a value."""

    kind: From
    text: str = ""
    number: int = 0


class Deref(NamedTuple):
    """One step through memory: read at value + offset; `user`: with the user-space reader.

    `per_cpu` reads nothing: it turns a per-CPU variable's address into that of this CPU's copy.
    """

    offset: int
    user: bool = False
    per_cpu: bool = False


class Expression(NamedTuple):
    """A parsed expression: dereferences innermost first; `slot` is the index of the last fetch instruction.

    `column` is how far the kernel has read: it shows later faults relative to that.
    `type` is its type by BTF (a number of the profile's types), `bits` (width, position) if it is a bitfield.
    """

    source: Source
    derefs: tuple[Deref, ...]
    slot: int
    column: int
    type: int | None = None
    bits: tuple[int, int] = (0, 0)

    @property
    def read(self) -> Deref | None:
        """The read of memory with which it ends, None if it ends with something else."""
        return self.derefs[-1] if self.derefs and not self.derefs[-1].per_cpu else None


class ProbeSources(Protocol):
    """What an argument may start from at probes that aren't kprobes.

    `comm_has_any_type`: $comm and strings have the type that is written.  `may_cast`: a typecast doesn't need a
    function's entry or return.  `unknown_types` are refused here.
    """

    comm_has_any_type: bool
    may_cast: bool
    unknown_types: frozenset[str]

    def read(self, text: str, scope: Scope, column: int) -> Expression | None:
        """Read a source; return None if it is read as at a kprobe.  Raises Refusal."""
        ...


class Scope(NamedTuple):
    """What an argument may refer to at its probe point; $arg1 is argument number `first`, counted from 0.

    `stack_size` is that of a kernel stack in bytes: $stackN can't go beyond it (PARAM_MAX_STACK).
    """

    is_return: bool
    at_entry: bool
    gates: Gates
    function: Function = Function()
    sources: ProbeSources | None = None
    first: int = 0
    stack_size: int = STACK_SIZE


def _by_name(text: str, scope: Scope, column: int) -> Expression:
    """Read an argument by its C name, or $retval."""
    found = find_variable(text, scope.function, column, is_return=scope.is_return)
    if found.parameter is None:
        source = Source(From.RETURN_VALUE)
    else:
        kind = From.ENTRY_ARGUMENT if scope.is_return else From.ARGUMENT
        source = Source(kind, number=found.parameter + scope.first)
    derefs = tuple([Deref(offset) for offset in found.offsets])
    # kernels before 7.3 lose the column of the last field: where they show a later fault is up to chance
    end = found.column if scope.gates.field_caret else column
    return Expression(source, derefs, len(derefs), end, found.type, found.bits)


def _current(text: str, scope: Scope, column: int) -> Expression:
    """Read $current[->FIELD..]."""
    source = Source(From.CURRENT)
    if text == "$current":
        return Expression(source, (), 0, column)
    if not text.startswith("$current-"):
        raise Refusal("BAD_VAR", column)
    _, fields, after = split_variable(text, column)
    types = scope.function.types
    struct = None if types is None else types.struct("task_struct")
    if types is None or struct is None or fields is None:
        raise Refusal("NO_BTF_ENTRY", column)
    path = follow_fields(types, fields, after, struct=struct)
    derefs = tuple([Deref(offset) for offset in path.offsets])
    return Expression(source, derefs, len(derefs), path.column, path.type, path.bits)


def _variable(text: str, scope: Scope, column: int) -> Source:
    bad = Refusal("BAD_VAR", column)
    if text == "retval":
        if not scope.is_return:
            raise Refusal("RETVAL_ON_PROBE", column)
        return Source(From.RETURN_VALUE)
    if text.startswith("stack"):
        if text == "stack":
            return Source(From.STACK_POINTER)
        if not is_digit(text, 5):
            raise bad
        return Source(From.STACK, number=_index(text[5:], "BAD_STACK_NUM", column, 0, scope))
    if text == "comm" or (text == "COMM" and scope.gates.capital_comm):
        return Source(From.COMM)
    if text.startswith("arg"):
        reachable = scope.gates.entry_arguments_at_return if scope.is_return else scope.at_entry
        if reachable or scope.gates.names_missing_entry:
            number = _index(text[3:], "BAD_ARG_NUM", column, 1, scope) - 1
            if reachable:
                return Source(From.ENTRY_ARGUMENT if scope.is_return else From.ARGUMENT, number=number + scope.first)
            raise Refusal("NOFENTRY_ARGS", column)
    raise bad


def _index(text: str, message: str, column: int, least: int, scope: Scope) -> int:
    try:
        number = kstrtoul(text, 10)
    except OSError as error:
        raise Refusal("BAD_VAR_RANGE" if error.errno == errno.ERANGE else "BAD_VAR", column) from None
    if not least <= number <= scope.stack_size // _WORD:
        raise Refusal(message, column)
    return number


def _number(text: str, message: str, column: int, *, signed: bool) -> int:
    try:
        return kstrtol(text) if signed else kstrtoul(text)
    except OSError as error:
        raise Refusal(message, column, errno=error.errno) from None


def _memory(text: str, column: int) -> Expression:
    """Read what follows an @: it always ends with one read of memory."""
    if is_digit(text, 0):
        address = _number(text, "BAD_MEM_ADDR", column, signed=False)
        return Expression(Source(From.IMMEDIATE, number=address), (Deref(0),), 1, column)
    if text.startswith("+"):
        raise Refusal("FILE_ON_KPROBE", column)
    return Expression(Source(From.SYMBOL, text), (Deref(0),), 2, column)


def _immediate(text: str, scope: Scope, column: int) -> Source:
    if text.startswith('"'):
        is_lone = len(text) == 1 and not scope.gates.lone_quote_is_empty
        if is_lone or not text.endswith('"'):
            raise Refusal("IMMSTR_NO_CLOSE", column + 1 + len(text))
        return Source(From.TEXT, text[1:-1])
    if is_digit(text, 0):
        return Source(From.IMMEDIATE, number=_number(text, "BAD_IMM", column + 1, signed=False))
    text = text.removeprefix("+")  # so +-5 and ++5 are numbers, too
    return Source(From.IMMEDIATE, number=_number(text, "BAD_IMM", column + 1, signed=True))


def _dereference(text: str, scope: Scope, column: int, level: int) -> Expression:
    user = text[1:2] == "u"
    if user:
        text = text[0] + text[2:]
    if text.startswith("+"):
        text = text[1:]
    number, brace, rest = text.partition("(")
    if not brace:
        raise Refusal("DEREF_NEED_BRACE", column)
    offset = _number(number, "BAD_DEREF_OFFS", column, signed=True)
    after = column + len(number) + 1 + (0 if number.startswith("-") else 1)
    inner, brace, _ = rest.rpartition(")")
    if not brace:
        raise Refusal("DEREF_OPEN_BRACE", after + len(rest))
    expression = read_expression(inner, scope, after, level + 1)
    _check_address(expression, after)
    derefs = (*expression.derefs, Deref(offset, user))
    return Expression(expression.source, derefs, expression.slot + 1, after if scope.gates.caret_shift else column)


def _check_address(expression: Expression, column: int) -> None:
    """Raise Refusal for what can't be dereferenced, and for one instruction too many."""
    if not expression.derefs and expression.source.kind in (From.COMM, From.TEXT):
        raise Refusal("COMM_CANT_DEREF", column)
    if expression.slot + 1 == LAST_SLOT:
        raise Refusal("TOO_MANY_OPS", column)


def _per_cpu(text: str, scope: Scope, column: int, level: int) -> Expression:
    """Read this_cpu_ptr(X) or this_cpu_read(X)."""
    is_read = text.startswith(PER_CPU_READ)
    rest = text[len(PER_CPU_READ if is_read else PER_CPU_POINTER) :]
    column += len(text) - len(rest)
    inner, brace, _ = rest.rpartition(")")
    if not brace:
        raise Refusal("DEREF_OPEN_BRACE", column + len(rest))
    expression = read_expression(inner, scope, column, level + 1)
    if inner.startswith("@"):  # this means the address, not what is stored there
        derefs, slot = expression.derefs[:-1], expression.slot
    else:
        _check_address(expression, column)
        derefs, slot = expression.derefs, expression.slot + 1
    derefs = (*derefs, Deref(0, per_cpu=True))
    if is_read:
        slot += 1
        if slot == LAST_SLOT:
            raise Refusal("TOO_MANY_OPS", column)
        derefs = (*derefs, Deref(0))
    return Expression(expression.source, derefs, slot, column)


def _typecast(text: str, scope: Scope, column: int, level: int) -> Expression:
    if not scope.is_return and not scope.at_entry and (scope.sources is None or not scope.sources.may_cast):
        raise Refusal("NOSUP_BTFARG_TYPES", column)
    cast = read_typecast(text, column)
    expression = read_expression(cast.inner, scope, cast.inner_column, level + 1)
    path = resolve_typecast(cast, scope.function.types, LAST_SLOT - expression.slot)
    derefs = (*expression.derefs, *[Deref(offset) for offset in path.offsets])
    slot = expression.slot + len(path.offsets)
    return Expression(expression.source, derefs, slot, path.column, path.type, path.bits)


def read_expression(text: str, scope: Scope, column: int, level: int = 0) -> Expression:
    """Read an expression (without :TYPE) at `column` of its token.  Raises Refusal.

    `level` is the number of expressions around it.
    """
    if scope.sources is not None and (expression := scope.sources.read(text, scope, column)) is not None:
        return expression
    gates = scope.gates
    if nested := _nested(text, gates):
        if gates.nesting is not None and level >= gates.nesting:
            raise Refusal("TOO_MANY_NESTED", column)
        return nested(text, scope, column, level)
    first = text[:1]
    if first == "$":
        return _dollar(text, scope, column)
    if first == "%":
        if text[1:] not in REGISTERS:
            raise Refusal("BAD_REG_NAME", column)
        return Expression(Source(From.REGISTER, text[1:]), (), 0, column)
    if first == "@":
        return _memory(text[1:], column)
    if first == "\\":
        return Expression(_immediate(text[1:], scope, column), (), 0, column)
    if gates.btf and is_name(first):
        return _argument_name(text, scope, column)
    is_typecast = first == "(" and gates.event_typecasts
    raise Refusal("TYPECAST_NOT_EVENT" if is_typecast else "BAD_FETCH_ARG", column)


_Nested = Callable[[str, Scope, int, int], Expression]


def _nested(text: str, gates: Gates) -> _Nested | None:
    """Return the reader of an expression that contains another; None if it doesn't."""
    if gates.typecasts:
        if text.startswith((PER_CPU_POINTER, PER_CPU_READ)):
            return _per_cpu
        if text.startswith("("):
            return _typecast
    return _dereference if text.startswith(("+", "-")) else None


def _dollar(text: str, scope: Scope, column: int) -> Expression:
    """Read $VARIABLE, and with BTF $retval->FIELD and $current->FIELD."""
    gates = scope.gates
    if gates.btf and text.startswith("$retval"):
        if not scope.is_return:
            raise Refusal("RETVAL_ON_PROBE", column)
        return _by_name(text, scope, column)
    if gates.current and text.startswith("$current"):
        return _current(text, scope, column)
    return Expression(_variable(text[1:], scope, column), (), 0, column)


def _argument_name(text: str, scope: Scope, column: int) -> Expression:
    """Read the name of an argument, which the kernel knows only at the entry and the return of the function."""
    if not scope.is_return and not scope.at_entry:
        raise Refusal("NOSUP_BTFARG", column)
    return _by_name(text, scope, column)
