"""Evaluation of fetch arguments: a machine state -> the bytes of a record.

An argument is compiled once into a closure.  A failed read leaves whatever the buffer held: records are zero there, and
mark it (`SparseBytes`); at a kernel address a number is what its register held.
Sources: trace_probe_tmpl.h and trace_probe_kernel.h of 6.1; recorded traces.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache

from kprobe_sim.builds.gates import Gates
from kprobe_sim.language.fetch.argument import FetchArg, Store
from kprobe_sim.language.fetch.event_field import compile_field
from kprobe_sim.language.fetch.expression import ARGUMENT_REGISTERS, Deref, From, Source
from kprobe_sim.language.fetch.faults import CountedMemory, Faults, plain
from kprobe_sim.language.fetch.strings import Text, compile_plain_string, compile_string, lay_out_texts
from kprobe_sim.language.primitives.kstrto import ULONG_MAX
from kprobe_sim.machine.state import State, fetch, is_kernels
from kprobe_sim.machine.symbol_text import Covering
from kprobe_sim.records.scratch_page import Hole, SparseBytes

Value = Callable[[State], int | None]
# A state and the numbers at the record's start (type, flags, preemption depth, pid, addresses) -> the record.
Evaluate = Callable[[State, tuple[int, ...]], bytes]
_COMMON_SIZE = 8  # bytes of the fields that all events have
_LOCATION = 4  # bytes of a string's location
_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}


def _stack_word(index: int, stack_size: int) -> Value:
    """Return the closure for a word of the stack; `stack_size` is THREAD_SIZE, by which stacks are aligned."""

    def value(state: State) -> int:
        if index < len(state.stack):
            return state.stack[index]
        pointer = state.registers.get("sp", 0)
        address = pointer + 8 * index
        if (address ^ pointer) // stack_size:  # beyond this stack (regs_within_kernel_stack)
            return 0
        return int.from_bytes(plain(state.memory).read(address, 8) or b"", "little")

    return value


def _register(name: str) -> Value:
    return lambda state: state.registers.get(name, 0)


def _argument(number: int, stack_size: int) -> Value:
    """Return the closure for an argument of the function: six are in registers, the others on the stack."""
    if number < len(ARGUMENT_REGISTERS):
        return _register(ARGUMENT_REGISTERS[number])
    return _stack_word(number - len(ARGUMENT_REGISTERS) + 1, stack_size)  # word 0 is the return address


def _at_entry(value: Value) -> Value:
    return lambda state: value(state if state.entry is None else state.entry)


def _source(source: Source, stack_size: int) -> Value:
    """Return the closure for the start of a fetch; immediate strings have no address: `strings` handles them."""
    number = source.number & ULONG_MAX
    match source.kind:
        case From.REGISTER | From.STACK_POINTER:
            return _register(source.text or "sp")
        case From.STACK:
            return _stack_word(number, stack_size)
        case From.ARGUMENT:
            return _argument(number, stack_size)
        case From.ENTRY_ARGUMENT:
            return _at_entry(_argument(number, stack_size))
        case From.RETURN_VALUE:
            return lambda state: state.return_value & ULONG_MAX
        case From.COMM:  # cast to something else
            return lambda state: state.current.comm
        case From.FIELD:
            field = compile_field(source.number)
            return lambda state: field(state.record)
        case From.CURRENT:
            return lambda state: state.current.task
        case From.FILE_OFFSET:
            return lambda state: ((state.mapped or 0) + number) & ULONG_MAX
        case _:
            return lambda state: number


def _follow(value: Value, deref: Deref) -> Value:
    offset, user, per_cpu = deref
    if per_cpu:

        def placed(state: State) -> int | None:
            start = value(state)
            return None if start is None else (start + state.current.per_cpu) & ULONG_MAX

        return placed

    def followed(state: State) -> int | None:
        start = value(state)
        if start is None:
            return None
        content = fetch(state.memory, (start + offset) & ULONG_MAX, 8, user=user)
        return None if content is None else int.from_bytes(content, "little")

    return followed


def _value(argument: FetchArg, stack_size: int) -> Value:
    """Return the closure for the value that the store works on: of an array, before the last dereference."""
    derefs = argument.expression.derefs
    value = _source(argument.expression.source, stack_size)
    for deref in derefs[:-1] if argument.last_is_stored or argument.length else derefs:
        value = _follow(value, deref)
    return value


def bits_of(argument: FetchArg) -> Callable[[int], int]:
    """Return a function that takes a bitfield out of a number of the type's width."""
    mask = (1 << 8 * argument.type.size) - 1
    if argument.bits is None:
        return lambda number: number & mask
    width, position = argument.bits
    low = (1 << width) - 1
    return lambda number: (number & mask) >> position & low


def _failed(argument: FetchArg, gates: Gates) -> Callable[[State, int], int | None]:
    """Return a function for the number that a failed read at an address stores, None if the buffer stays as it was.

    Source: copy_from_kernel_nofault(), whose loads of more than a byte store their register even if they fail.
    """
    if gates.early:
        return lambda state, address: 0
    stored, user = gates.failed_kernel_read, argument.expression.derefs[-1].user
    if user or (argument.type.size == 1 and stored != "zero"):
        return lambda state, address: None

    def number(state: State, address: int) -> int | None:
        if not is_kernels(address):
            return None
        return state.current.task if stored == "task" else int(stored == "one")

    return number


def _number(argument: FetchArg, gates: Gates, stack_size: int) -> Callable[[State], int | Hole]:
    """Compile a single number; a hole at 0 stands for a failed read."""
    source = argument.expression.source
    is_plain = argument.store is Store.RAW and not argument.expression.derefs and argument.bits is None
    if is_plain and source.kind is From.REGISTER:
        name = source.text
        mask = (1 << 8 * argument.type.size) - 1
        return lambda state: state.registers.get(name, 0) & mask  # the most common argument of all
    value = _value(argument, stack_size)
    take = bits_of(argument)
    size = argument.type.size
    untouched: int | Hole = 0 if gates.early else Hole(0, size)  # early kernels store 0 where a read fails
    if argument.store is Store.RAW:

        def raw(state: State) -> int | Hole:
            number = value(state)
            return untouched if number is None else take(number)

        return raw

    offset, user, _ = argument.expression.derefs[-1]
    is_whole = gates.early or argument.bits is None
    unread = untouched if is_whole else Hole(0, size, take)  # the bits are taken from what the buffer held
    failed = _failed(argument, gates)

    def memory(state: State) -> int | Hole:
        start = value(state)
        if start is None:
            return untouched
        address = (start + offset) & ULONG_MAX
        content = fetch(state.memory, address, size, user=user)
        number = failed(state, address) if content is None else int.from_bytes(content, "little")
        return unread if number is None else take(number)

    return memory


def _array(argument: FetchArg, gates: Gates, stack_size: int) -> Callable[[State], bytes | SparseBytes]:
    """Compile an array of numbers, each read separately."""
    value = _value(argument, stack_size)
    take = bits_of(argument)
    size = argument.type.size
    length = argument.length
    offset = argument.expression.derefs[-1].offset
    failed = _failed(argument, gates)
    change = None if argument.bits is None else take
    untouched = SparseBytes.of(bytes(size * length), [Hole(0, size * length)])

    def array(state: State) -> bytes | SparseBytes:
        start = value(state)
        if start is None:
            return untouched
        content = plain(state.memory).read((start + offset) & ULONG_MAX, size * length)
        if content is not None and argument.bits is None:
            return content
        items = []
        holes = []
        for index in range(length):
            address = (start + offset + size * index) & ULONG_MAX
            item = state.memory.read(address, size)
            number = failed(state, address) if item is None else int.from_bytes(item, "little")
            if number is None:
                holes.append(Hole(size * index, size, change))
            items.append(take(number or 0).to_bytes(size, "little"))
        return SparseBytes.of(b"".join(items), holes) if holes else b"".join(items)

    return array


def compile_arguments(
    arguments: Sequence[FetchArg], start: int, symbols: Covering, gates: Gates, stack_size: int
) -> Evaluate:
    """Compile the arguments of a probe, which begin at byte `start` of its record; `stack_size` is a stack's, in bytes.

    The result makes entire records.  It handles what a hit nearly always finds; anything else, such as a failed read,
    is left to `compile_exactly`.
    """
    layout = layout_of(arguments, start)
    pack, fixed_end = layout.pack, layout.size
    if not arguments:
        return lambda state, head: pack(*head)
    strings = [index for index, argument in enumerate(arguments) if argument.is_dynamic]
    arrays = [index for index, argument in enumerate(arguments) if argument.length and not argument.is_dynamic]
    fetches: list[Callable[[State], int | bytes | Hole | None]] = [
        compile_plain_string(argument, _value(argument, stack_size), gates)
        if argument.is_dynamic
        else _fixed(argument, gates, stack_size)
        for argument in arguments
    ]

    @cache
    def exact() -> Evaluate:
        return compile_exactly(arguments, start, symbols, gates, stack_size)

    def evaluate(state: State, head: tuple[int, ...]) -> bytes:
        values = [fetch(state) for fetch in fetches]
        end, tail = fixed_end, b""
        for index in strings:
            text = values[index]
            if not isinstance(text, bytes):
                return exact()(state, head)
            values[index] = len(text) << 16 | end & 0xFFFF
            end += len(text)
            tail += text
        for index in arrays:
            if isinstance(values[index], SparseBytes):
                return exact()(state, head)
        try:
            return pack(*head, *values) + tail
        except struct.error:  # a hole isn't a number
            return exact()(state, head)

    return evaluate


def compile_counted(evaluate: Evaluate, exactly: Evaluate, rule: Faults, count: Callable[[int], None]) -> Evaluate:
    """Return an evaluation that does the same as `evaluate` and `exactly`, and reports the number of page faults."""

    def counted(state: State, head: tuple[int, ...]) -> bytes:
        memory = CountedMemory(state.memory, rule)
        seen = state._replace(memory=memory)
        record = evaluate(seen, head)
        if memory.faults:
            memory.faults = 0  # some reads were tried twice, others left out
            record = exactly(seen, head)
        count(memory.faults)
        return record

    return counted


def compile_exactly(
    arguments: Sequence[FetchArg], start: int, symbols: Covering, gates: Gates, stack_size: int
) -> Evaluate:
    """Compile the arguments of a probe for everything that can happen to them; `compile_arguments` does the same."""
    texts: dict[int, Callable[[State], Text]] = {}
    others: dict[int, Callable[[State], int | bytes | Hole]] = {}
    for index, argument in enumerate(arguments):
        if argument.is_dynamic:
            texts[index] = compile_string(argument, _value(argument, stack_size), symbols, gates)
        else:
            others[index] = _fixed(argument, gates, stack_size)
    layout = layout_of(arguments, start)

    def evaluate(state: State, head: tuple[int, ...]) -> bytes:
        values: list[int | bytes] = [0] * len(arguments)
        holes: list[Hole] = []
        for index, fixed in others.items():
            value, offset = fixed(state), start + arguments[index].offset
            if isinstance(value, Hole):
                holes.append(value._replace(offset=offset))
                continue
            if isinstance(value, SparseBytes):
                holes += [hole._replace(offset=offset + hole.offset) for hole in value.holes]
            values[index] = value
        locations, tail, unwritten = lay_out_texts([text(state) for text in texts.values()], layout.size)
        for index, location in zip(texts, locations, strict=True):
            values[index] = location if len(location) > _LOCATION else int.from_bytes(location, "little")
        holes += [hole._replace(offset=layout.size + hole.offset) for hole in unwritten]
        record = layout.pack(*head, *values) + tail
        return SparseBytes.of(record, holes) if holes else record

    return evaluate


def _fixed(argument: FetchArg, gates: Gates, stack_size: int) -> Callable[[State], int | bytes | Hole]:
    """Compile an argument that isn't a string: all of it is in the fixed part of the record."""
    return (_array if argument.length else _number)(argument, gates, stack_size)


def layout_of(arguments: Sequence[FetchArg], start: int) -> struct.Struct:
    """Return the layout of a record's fixed part, whose arguments begin at byte `start`."""
    codes = ["<HBBi", "Q" * ((start - _COMMON_SIZE) // 8)]
    for argument in arguments:
        if argument.is_dynamic:
            codes.append("I" if argument.size == _LOCATION else f"{argument.size}s")
        else:
            codes.append(f"{argument.size}s" if argument.length else _CODES[argument.size])
    return struct.Struct("".join(codes))
