"""Fetch arguments in the language of the patch of 2009: aN, sN, sa, rv, ra, %REG, @ADDR, @SYM, +|-OFFS(ARG).

Every value is an unsigned long; there are no types.  Sources: scenarios/replays/seeds, tracer-2009 and lwn-2009;
revision 11 of the patch's trace_kprobe.c: parse_trace_arg(), trace_arg_string().
"""

from __future__ import annotations

import errno

from kprobe_sim.language.fetch.argument import FetchArg, Store
from kprobe_sim.language.fetch.expression import REGISTERS, Deref, Expression, From, Source
from kprobe_sim.language.fetch.types import FetchType
from kprobe_sim.language.primitives.kstrto import is_digit, kstrtol, kstrtoul
from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.named_tuple import NamedTuple

MAX_ARGUMENTS = 128  # the kernel drops the others
_LONGEST = 63  # bytes of an argument
_MOST_ARGUMENT = 16  # PARAM_MAX_ARGS
_MOST_STACK = 8192 // 8  # PARAM_MAX_STACK: the words of a kernel stack, which had two pages
_WORD = FetchType("ulong", "unsigned long", 8, False, "%lx")


class _Read(NamedTuple):
    """A value: its source, the reads of memory from there, innermost first, and how the kernel writes it."""

    source: Source
    derefs: tuple[Deref, ...]
    text: str


def read_first_arguments(words: list[str], *, is_return: bool, named: bool) -> tuple[FetchArg, ...]:
    """Read the arguments of a line; `named`: their names are NAME of NAME=ARG, or else the written text.

    Raises OSError: EINVAL, ENOSPC for one of more than 63 bytes, or the errno of a number that can't be read.
    """
    arguments = []
    for position, word in enumerate(words[:MAX_ARGUMENTS]):
        if len(word) > _LONGEST:
            raise refuse(errno.ENOSPC)
        name, equals, text = word.partition("=") if named else (f"arg{position}", "", word)
        read = _read(text if equals or not named else word, is_return=is_return)
        expression = Expression(read.source, read.derefs, len(read.derefs), 0)
        store = Store.MEMORY if read.derefs else Store.RAW
        arguments.append(
            FetchArg(name, read.text, _WORD, 0, expression, store, bool(read.derefs), None, 8 * position, 8)
        )
    return tuple(arguments)


def _read(text: str, *, is_return: bool) -> _Read:
    """Read one argument, without its name.  The kernel ignores what follows rv, ra and sa."""
    first, rest = text[:1], text[1:]
    match first:
        case "a":
            number = _index(rest, _MOST_ARGUMENT)
            return _Read(Source(From.ARGUMENT, number=number), (), f"a{number}")
        case "r" if is_return and rest[:1] == "v":
            return _Read(Source(From.RETURN_VALUE), (), "rv")
        case "r" if is_return and rest[:1] == "a":
            return _Read(Source(From.REGISTER, "ip"), (), "ra")
        case "s" if rest[:1] == "a":
            return _Read(Source(From.STACK_POINTER), (), "sa")
        case "s":
            number = _index(rest, _MOST_STACK)
            return _Read(Source(From.STACK, number=number), (), f"s{number}")
        case "%" if rest in REGISTERS:
            return _Read(Source(From.REGISTER, rest), (), text)
        case "@":
            return _memory(rest)
        case "+" | "-":
            return _indirect(first, rest, is_return=is_return)
    raise refuse(errno.EINVAL)


def _index(text: str, most: int) -> int:
    """Read a decimal number of at most `most`."""
    try:
        number = kstrtoul(text, 10)
    except OSError:
        raise refuse(errno.EINVAL) from None
    if number > most:
        raise refuse(errno.EINVAL)
    return number


def _memory(text: str) -> _Read:
    """Read what follows an @: an address, or a symbol and an offset."""
    if is_digit(text, 0):
        address = kstrtoul(text)
        return _Read(Source(From.IMMEDIATE, number=address), (Deref(0),), f"@0x{address:016x}")
    symbol, offset = split_first_offset(text)
    if not symbol:
        raise refuse(errno.EINVAL)
    return _Read(Source(From.SYMBOL, f"{symbol}{offset:+d}"), (Deref(0),), f"@{symbol}{offset:+d}")


def _indirect(sign: str, text: str, *, is_return: bool) -> _Read:
    """Read OFFS(ARG) after its sign."""
    number, brace, rest = text.partition("(")
    if not brace:
        raise refuse(errno.EINVAL)
    offset = kstrtol(number) * (-1 if sign == "-" else 1)
    inner, brace, _ = rest.rpartition(")")
    if not brace:
        raise refuse(errno.EINVAL)
    read = _read(inner, is_return=is_return)
    return _Read(read.source, (*read.derefs, Deref(offset)), f"{offset:+d}({read.text})")


def split_first_offset(text: str) -> tuple[str, int]:
    """Split SYMBOL[+|-OFFS] at its first + or, without one, its first -.  Raises OSError for a bad number."""
    for sign in "+-":
        symbol, has_sign, number = text.partition(sign)
        if has_sign:
            return symbol, kstrtol(number) * (-1 if sign == "-" else 1)
    return text, 0


def without_symbols(argument: FetchArg) -> FetchArg:
    """Return an argument whose symbol doesn't exist: it reads 0, as nothing can be read at address 0."""
    nowhere = Source(From.IMMEDIATE)
    return argument._replace(expression=argument.expression._replace(source=nowhere, derefs=(Deref(0),)))
