"""Fetch arguments as kernels before 4.20 parse them: each type and source has its fetch function, or none.

A fault has an errno and a line in the kernel's log; there are no error_log and no columns.
Sources: kernel/trace/trace_probe.c of 3.2 to 4.19; fixtures/definitions of these.
"""

from __future__ import annotations

import errno
from collections.abc import Collection

from kprobe_sim.language.fetch.argument import MAX_ARGUMENTS, RESERVED, FetchArg, Store
from kprobe_sim.language.fetch.expression import (
    ARGUMENT_REGISTERS,
    I386_REGISTERS,
    REGISTERS,
    Deref,
    Expression,
    From,
    Scope,
    Source,
)
from kprobe_sim.language.fetch.types import STRING_TYPE, FetchType, early_type
from kprobe_sim.language.primitives.kstrto import (
    is_digit,
    is_name,
    kstrtol,
    kstrtoul,
    read_long,
    read_ulong,
    simple_strtoul,
)
from kprobe_sim.language.primitives.refusal import Printed

_ROOM = 63  # bytes of an expression
_MAX_NUMBER = 16  # of $argN


def split_symbol(text: str, *, signed: bool) -> tuple[str, int]:
    """Split SYM+OFFS, where `signed` SYM-OFFS too.  Raises OSError (EINVAL, ERANGE) for a bad offset."""
    signs = [position for position in (text.find("+"), text.find("-") if signed else -1) if position >= 0]
    if not signs:
        return text, 0
    sign = min(signs)
    return text[:sign], kstrtol(text[sign:]) if signed else kstrtoul(text[sign + 1 :])


def _variable(name: str, kind: FetchType, scope: Scope) -> Source | None:
    """Read $VARIABLE; return None if its value can't be fetched as that type.  Raises OSError."""
    wrong = OSError(errno.EINVAL, name)
    if name == "retval":
        if not scope.is_return:
            raise wrong
        return None if kind.is_string else Source(From.RETURN_VALUE)
    if name == "stack":
        if kind != early_type(None, scope.gates):
            raise wrong
        return Source(From.STACK_POINTER)
    if name.startswith("stack") and is_digit(name, 5):
        number = kstrtoul(name[5:], 10)
        if scope.sources is None and number > scope.stack_size // scope.gates.word_size:
            raise wrong
        return None if kind.is_string else Source(From.STACK, number=number)
    if scope.gates.early_arguments and name.startswith("arg") and is_digit(name, 3):
        return _argument(kstrtoul(name[3:], 10))
    if name == "comm" and scope.gates.comm_variable:
        if not kind.is_string:
            raise wrong
        return Source(From.COMM)
    raise wrong


def _argument(number: int) -> Source:
    """Return where argument `number` (from 0) of a function is at its entry.  Raises OSError."""
    if number > _MAX_NUMBER:
        raise OSError(errno.EINVAL, f"arg{number}")
    if number < len(ARGUMENT_REGISTERS):
        return Source(From.REGISTER, ARGUMENT_REGISTERS[number])
    return Source(From.STACK, number=number - len(ARGUMENT_REGISTERS) + 1)


def _memory(text: str, scope: Scope) -> Expression | None:
    """Read what follows an @."""
    if is_digit(text, 0):
        number = read_ulong(text, scope.gates.word_size)
        return Expression(Source(From.IMMEDIATE, number=number), (Deref(0),), 0, 0)
    if scope.sources is not None:  # a program's: @+OFFSET in its file
        if not text.startswith("+"):
            raise OSError(errno.EINVAL, text)
        return Expression(Source(From.FILE_OFFSET, number=kstrtol(text[1:])), (Deref(0),), 0, 0)
    if text.startswith("+") and scope.gates.uprobe_memory:
        raise OSError(errno.EINVAL, text)
    symbol, _ = split_symbol(text, signed=scope.gates.signed_offsets)
    return Expression(Source(From.SYMBOL, text), (Deref(0),), 0, 0) if symbol else None


def _read(text: str, kind: FetchType, scope: Scope) -> Expression | None:
    """Read an expression; return None if nothing fetches it as that type.  Raises OSError."""
    first = text[:1]
    if scope.sources is not None and first != "%" and not scope.gates.uprobe_memory:
        raise OSError(errno.EINVAL, text)
    if first == "$":
        variable = _variable(text[1:], kind, scope)
        return None if variable is None else Expression(variable, (), 0, 0)
    if first == "%":
        if text[1:] not in (REGISTERS if scope.gates.word_size == 8 else I386_REGISTERS):
            raise OSError(errno.EINVAL, text)
        return None if kind.is_string else Expression(Source(From.REGISTER, text[1:]), (), 0, 0)
    if first == "@":
        return _memory(text[1:], scope)
    if first in ("+", "-") and first:
        number, brace, rest = text.removeprefix("+").partition("(")
        inner, close, _ = rest.rpartition(")")
        distance = read_long(number, scope.gates.word_size) if brace else 0
        if not close:
            return None
        base = early_type(None, scope.gates)
        assert base is not None
        inner_expression = _read_expression(inner, base, scope)
        return inner_expression._replace(derefs=(*inner_expression.derefs, Deref(distance)))
    return None


def _read_expression(text: str, kind: FetchType, scope: Scope) -> Expression:
    """Read an expression that something can fetch as that type.  Raises Printed or OSError."""
    found = _read(text, kind, scope)
    if found is None:
        raise Printed(errno.EINVAL, f"{kind.name} type has no corresponding fetch method.", source="trace_probe")
    return found


def _bitfield(text: str | None, kind: FetchType) -> tuple[int, int] | None:
    """Read bWIDTH@POSITION/SIZE.  Raises OSError."""
    if text is None or not text.startswith("b"):
        return None
    width, end = simple_strtoul(text, 1)
    position, after = simple_strtoul(text, end + 1)
    wrong = not width or text[end : end + 1] != "@" or after == end + 1 or text[after : after + 1] != "/"
    if wrong or width + position > kind.size * 8:
        raise OSError(errno.EINVAL, text)
    return width, position


def _compile(name: str, body: str, offset: int, scope: Scope) -> FetchArg:
    if len(body) > _ROOM:
        raise Printed(errno.ENOSPC, f"Argument is too long.: {body}", source="trace_probe")
    if scope.gates.number_texts == "untyped":  # the kernel writes the listing anew: what follows the last brace is lost
        body = body[: body.rfind(")") + 1] or body if body[:1] in ("+", "-") else body
        text, colon, rest = body, "", ""
    else:
        text, colon, rest = body.partition(":")
    written = rest if colon else None
    kind = early_type(written, scope.gates)
    if text == "$comm" and written is None and scope.gates.comm_variable:
        kind = STRING_TYPE
    if kind is None:
        raise Printed(errno.EINVAL, f"Unsupported type: {written}", source="trace_probe")
    expression = _read_expression(text, kind, scope)
    bits = _bitfield(written, kind)
    store = Store.STRING if kind.is_string else Store.MEMORY if expression.derefs else Store.RAW
    return FetchArg(name, body, kind, 0, expression, store, bool(expression.derefs), bits, offset, kind.size)


def compile_early(word: str, position: int, offset: int, names: Collection[str], scope: Scope) -> FetchArg:
    """Compile argument number `position` (from 0), whose field is at `offset` of the record's arguments.

    `names` are those of the arguments before it.  Raises Printed.
    """
    name, equals, body = word.partition("=")
    checked = scope.gates.arguments_checked
    number_text = f"[{position}]" if checked else f"{position}"
    if not equals:
        name, body = f"arg{position + 1}" if checked else word, word
    if not checked and scope.gates.number_texts != "untyped":
        name = name.replace(":", "_", 1)
    if checked and not is_name(name):
        raise Printed(errno.EINVAL, f"Invalid argument[{position}] name: {name}")
    if name in RESERVED or name in names:
        shown = name if equals else word
        raise Printed(errno.EINVAL, f"Argument{number_text} name '{shown}' conflicts with another field.")
    try:
        return _compile(name, body, offset, scope)
    except Printed as refusal:
        number, before = refusal.errno or errno.EINVAL, refusal.lines
    except OSError as error:
        number, before = error.errno or errno.EINVAL, ()
    raise Printed(number, f"Parse error at argument{number_text}. ({-number})", before=before)


def compile_all_early(words: list[str], scope: Scope) -> tuple[FetchArg, ...]:
    """Compile the arguments of a line; those beyond the limit are dropped.  Raises Printed."""
    arguments: list[FetchArg] = []
    offset = 0
    for position, word in enumerate(words[:MAX_ARGUMENTS]):
        argument = compile_early(word, position, offset, {known.name for known in arguments}, scope)
        arguments.append(argument)
        offset += argument.size
    return tuple(arguments)
