"""Records made only from the arguments of a call, for probes that read nothing else.

Most probes on functions fetch arguments in registers, and the strings that these point to.  A call states both, so
neither registers nor memory have to be laid out.  What a call doesn't state is left to `evaluate`, which makes the same
records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kprobe_sim.builds.gates import Gates
from kprobe_sim.language.fetch.argument import FetchArg, Store
from kprobe_sim.language.fetch.evaluate import bits_of, layout_of
from kprobe_sim.language.fetch.expression import ARGUMENT_REGISTERS, Deref, From
from kprobe_sim.language.fetch.strings import MAX_STRING

Stated = Sequence[int | str | bytes]  # a call's arguments
Filled = Sequence[tuple[str, int]]  # the registers of the arguments, with the bits that each fills
# A call's arguments, their registers, the task's name and the numbers at the record's start -> the record, or None.
Direct = Callable[[Stated, Filled, bytes, tuple[int, ...]], bytes | None]
_FromCall = Callable[[Stated, Filled, bytes], int | bytes]
_START = Deref(0)


class _Unstated(Exception):
    """A call doesn't state what is fetched."""


def compile_direct(arguments: Sequence[FetchArg], start: int, gates: Gates) -> Direct | None:
    """Compile the arguments of a probe, which begin at byte `start` of its record; None if they read more than that."""
    if gates.early and any(argument.expression.source.kind is From.COMM for argument in arguments):
        return None  # its NUL isn't counted
    takes = [_text(argument) if argument.is_dynamic else _number(argument) for argument in arguments]
    known = [take for take in takes if take is not None]
    if len(known) < len(takes):
        return None
    layout = layout_of(arguments, start)
    pack, fixed_end = layout.pack, layout.size
    places = [index for index, argument in enumerate(arguments) if argument.is_dynamic]

    def direct(args: Stated, registers: Filled, comm: bytes, head: tuple[int, ...]) -> bytes | None:
        try:
            values = [take(args, registers, comm) for take in known]
        except _Unstated:
            return None
        end, tail = fixed_end, b""
        for index in places:
            text = values[index]
            assert isinstance(text, bytes)
            values[index] = len(text) << 16 | end & 0xFFFF
            end += len(text)
            tail += text
        return pack(*head, *values) + tail

    return direct


def _index(argument: FetchArg) -> int | None:
    """Return the number of the function's argument that a fetch starts from; None if that isn't in a register."""
    source = argument.expression.source
    if source.kind is From.REGISTER and source.text in ARGUMENT_REGISTERS:
        return ARGUMENT_REGISTERS.index(source.text)
    return source.number if source.kind is From.ARGUMENT and source.number < len(ARGUMENT_REGISTERS) else None


def _number(argument: FetchArg) -> _FromCall | None:
    index = _index(argument)
    if index is None or argument.length or argument.store is not Store.RAW or argument.expression.derefs:
        return None
    take = bits_of(argument)

    def number(args: Stated, registers: Filled, comm: bytes) -> int:
        if index >= len(args):
            return 0
        stated = args[index]
        if not isinstance(stated, int):  # a string's address
            raise _Unstated
        return take(stated & registers[index][1])

    return number


def _text(argument: FetchArg) -> _FromCall | None:
    source, derefs = argument.expression.source, argument.expression.derefs
    if not derefs and source.kind is From.COMM:
        return lambda args, registers, comm: comm + b"\0"
    index = _index(argument)
    if index is None or argument.length or argument.store is Store.SYMBOL_NAME or not argument.last_is_stored:
        return None
    if len(derefs) != 1 or derefs[0]._replace(user=False) != _START:
        return None

    def text(args: Stated, registers: Filled, comm: bytes) -> bytes:
        stated = args[index] if index < len(args) else 0
        if isinstance(stated, int):
            raise _Unstated
        content = stated if isinstance(stated, bytes) else stated.encode("utf-8", "surrogateescape")
        if b"\0" in content:
            content = content.partition(b"\0")[0]
        if not 0 < len(content) < MAX_STRING:
            raise _Unstated
        return content + b"\0"

    return text
