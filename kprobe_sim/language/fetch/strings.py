"""Strings of a record: the length that the kernel assumes, and their position.

The kernel first measures all strings, then writes them one after the other into that room; a string that grows, fails
or isn't measured moves the others.  The oddities are the kernel's (trace_probe_tmpl.h, 6.1): the next string follows
the text of a symbol name without its NUL, and a string whose address can't be followed shows the one after it.  Room
that was measured but isn't written keeps what was there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kprobe_sim.builds.gates import Gates
from kprobe_sim.language.fetch.argument import FetchArg, Store
from kprobe_sim.language.fetch.expression import From, Source
from kprobe_sim.language.fetch.faults import CountedMemory, plain
from kprobe_sim.language.primitives.kstrto import ULONG_MAX
from kprobe_sim.machine.state import KERNEL_START, TASK_SIZE, State, fetch
from kprobe_sim.machine.symbol_text import Covering, symbol_text
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.records.scratch_page import Hole

MAX_STRING = 4096  # what is measured at most, the NUL included
_WORD = 8


class ByWords(bytes):
    """A user's string, which strncpy_from_user() copies by words: zeros follow its NUL."""

    def into(self, room: int) -> bytes:
        """Return what is written into the room: with zeros up to the end of the NUL's word, if that word has room."""
        end = (len(self) + _WORD - 1) // _WORD * _WORD
        return self.ljust(end, b"\0") if end <= room else self


_EMPTY = ByWords(b"\0")


class Written(NamedTuple):
    """The result of writing one string into some room: the bytes, the room used, and the length recorded."""

    content: bytes
    used: int
    length: int


class Item(NamedTuple):
    """One string: the bytes measured for it, and a function that writes it into the room that is left."""

    measured: int
    write: Callable[[int], Written]


class Text(NamedTuple):
    """The strings of one argument.

    `fails`: the fetch ended with an error after the items: then nothing was measured, and the room that was used is
    used again.  `length` is the number of locations recorded.
    """

    items: Sequence[Item]
    length: int
    fails: bool = False
    keeps_room: bool = False  # the location of an unreadable string keeps the room as its length


_NOTHING = Written(b"", 0, 0)
_FAULTED = Written(b"\0", 0, 0)


def _fault(room: int) -> Written:
    return _NOTHING


def _fault_in_kernel(room: int) -> Written:
    """Read at an unmapped kernel address: the first byte of the room becomes NUL."""
    return _FAULTED if room else _NOTHING


def _empty(room: int) -> Written:
    """Record a length of 0, which is shown as a fault; unlike a fault this gives up the room."""
    return Written(_EMPTY.into(room) if room else b"", 0, 0)


_FAULT = Item(0, _fault)
_KERNEL_FAULT = Item(0, _fault_in_kernel)


def _plain(content: bytes) -> Item:
    """Return the item of a readable string with its NUL, no longer than what is measured at most."""

    def write(room: int) -> Written:
        if room >= len(content):
            copied = content.into(room) if isinstance(content, ByWords) else content
            return Written(copied, len(content), len(content))
        return Written(content[: room - 1] + b"\0", room, room) if room else _NOTHING

    return Item(len(content), write)


def _long(state: State, address: int, measured: int, *, user: bool) -> Item:
    """Return the item of a string longer than what is measured: it takes all the room."""

    def write(room: int) -> Written:
        content = state.memory.string(address, room) if room else None
        if content is None:
            return _NOTHING
        if len(content) < room:
            copied = ByWords(content + b"\0").into(room) if user else content + b"\0"
            return Written(copied, len(content) + 1, len(content) + 1)
        return Written(content[: room - 1] + b"\0", room, room)

    return Item(measured, write)


def _measured(state: State, most: int) -> int:
    """Return the bytes measured of a string that is longer: none by a uprobe, by its strnlen_user()."""
    return most if state.mapped is None else 0


def _unread(state: State, address: int, item: Item) -> Item:
    """Return the item of an unreadable string; storing it is a read, too, whose faults may be counted."""
    memory = state.memory
    return item._replace(write=memory.storing(address, item.write)) if isinstance(memory, CountedMemory) else item


def _again(state: State, read: Callable[[], object]) -> None:
    """Repeat a failed read where faults are counted: the kernel reads once to measure, and once to store."""
    if isinstance(state.memory, CountedMemory):
        read()


def _followed(state: State, value: Callable[[State], int | None]) -> int | None:
    """Return the address of a string; None if it can't be read."""
    number = value(state)
    if number is None:
        _again(state, lambda: value(state))
    return number


def _read(state: State, address: int, user: bool, empty_is_fault: bool) -> Item:
    """Measure the string at an address.

    The user-space reader also does kernel reads of user addresses.
    """
    if user and address >= TASK_SIZE:
        return _FAULT
    user = address < TASK_SIZE
    content = state.memory.string(address, MAX_STRING)
    if content is None:
        return _unread(state, address, _KERNEL_FAULT if address >= KERNEL_START else _FAULT)
    if len(content) >= MAX_STRING:
        return _long(state, address, _measured(state, MAX_STRING + user), user=user)
    if not content and user and empty_is_fault:
        return Item(1, _empty)
    return _plain(ByWords(content + b"\0") if user else content + b"\0")


def _read_early(state: State, address: int, is_fault: bool) -> Item:
    """Measure the string at an address as kernels before 4.20 do: up to the first unreadable byte, and that byte, too.

    Those before 4.3 (not `is_fault`) keep what they could read, which may be nothing.
    """
    content = state.memory.string(address, MAX_STRING)
    if content is not None:
        if len(content) >= MAX_STRING:
            return _long(state, address, _measured(state, MAX_STRING), user=False)
        return _plain(content + b"\0")
    readable = bytearray()
    while byte := plain(state.memory).read(address + len(readable), 1):
        readable += byte
    item = Item(len(readable) + 1, _fault_in_kernel) if is_fault else _plain(bytes(readable) + b"\0")
    return _unread(state, address, item)


def _early_comm(state: State) -> Text:
    """Return the text of the task's name: its NUL isn't counted (strlcpy), so the next string begins there."""
    name = state.comm

    def write(room: int) -> Written:
        return Written((name + b"\0")[:room], len(name), len(name))

    return Text((Item(len(name) + 1, write),), 1)


def _compile_early(argument: FetchArg, value: Callable[[State], int | None], gates: Gates) -> Callable[[State], Text]:
    """Compile a string argument of kernels before 4.20, which never read from address 0, whatever the offset."""
    if not argument.expression.derefs and argument.expression.source.kind is From.COMM:
        return _early_comm
    offset = argument.expression.derefs[-1].offset if argument.last_is_stored else 0
    is_fault = gates.unreadable_string == "fault"
    is_followed = argument.expression.source.kind not in (From.IMMEDIATE, From.SYMBOL) or (
        len(argument.expression.derefs) > 1
    )

    def single(state: State) -> Text:
        number = _followed(state, value) or 0
        if not number and is_followed:
            return Text((_FAULT,), 1)
        return Text((_read_early(state, (number + offset) & ULONG_MAX, is_fault),), 1)

    return single


def _symbol(text: str) -> Item:
    content = text.encode("latin-1") + b"\0"
    # The kernel doesn't record the length: the room stays in its place.
    return Item(len(content), lambda room: Written(content[:room], len(content) - 1, room))


def compile_plain_string(
    argument: FetchArg, value: Callable[[State], int | None], gates: Gates
) -> Callable[[State], bytes | None]:
    """Compile a string argument for the usual case, the string with its NUL; None is left to `compile_string`.

    `value` gives its address.
    """
    early = gates.early
    source = argument.expression.source
    derefs = argument.expression.derefs
    user = argument.store is Store.USER_STRING
    offset = derefs[-1].offset if argument.last_is_stored else 0
    is_text = not derefs and source.kind in (From.TEXT, From.COMM)
    if argument.length or argument.store is Store.SYMBOL_NAME or (is_text and (user or early)):
        return lambda state: None
    if not derefs and source.kind is From.TEXT:
        fixed = source.text.encode("latin-1") + b"\0"
        return lambda state: fixed
    if not derefs and source.kind is From.COMM:
        return lambda state: state.comm + b"\0"

    def single(state: State) -> bytes | None:
        number = value(state)
        if number is None or (early and not number):
            return None
        address = (number + offset) & ULONG_MAX
        if user and address >= TASK_SIZE:
            return None
        content = state.memory.string(address, MAX_STRING)
        return content + b"\0" if content and len(content) < MAX_STRING else None

    return single


def compile_string(
    argument: FetchArg, value: Callable[[State], int | None], symbols: Covering, gates: Gates
) -> Callable[[State], Text]:
    """Compile a string argument; `value` gives the address, or the value whose symbol is named."""
    if gates.early:
        return _compile_early(argument, value, gates)
    source = argument.expression.source
    derefs = argument.expression.derefs
    user = argument.store is Store.USER_STRING
    empty_is_fault = gates.empty_user_string_is_fault and (user or gates.strings_told_apart)
    offset = derefs[-1].offset if argument.last_is_stored else 0
    count, keeps = argument.length or 1, gates.failed_element_keeps_room
    unfollowed = Text((), count, fails=True)
    if not derefs and source.kind in (From.TEXT, From.COMM):
        return _compile_event_text(source, count, user=user, keeps_room=keeps)
    if argument.length:
        return _compile_array(argument, value, user=user, empty_is_fault=empty_is_fault, keeps_room=keeps)

    if argument.store is Store.SYMBOL_NAME:

        def symbol_name(state: State) -> Text:
            number = _followed(state, value)
            return unfollowed if number is None else Text((_symbol(symbol_text(symbols, number)),), 1)

        return symbol_name

    def single(state: State) -> Text:
        number = _followed(state, value)
        if number is None:
            return unfollowed
        return Text((_read(state, (number + offset) & ULONG_MAX, user, empty_is_fault),), 1)

    return single


def _compile_event_text(source: Source, count: int, *, user: bool, keeps_room: bool) -> Callable[[State], Text]:
    """Compile a text that is the kernel's: an immediate string, or the task's name.

    Event probes also take it as an array and as a user's string: the kernel reads the first element of an array and
    gives up, and it doesn't read kernel memory as a user's.
    """
    if user:
        unreadable = Text((_FAULT,), count, count > 1, keeps_room)
        return lambda state: unreadable
    if source.kind is From.TEXT:
        fixed = Text((_plain(source.text.encode("latin-1") + b"\0"),), count, count > 1, keeps_room)
        return lambda state: fixed
    return lambda state: Text((_plain(state.comm + b"\0"),), count, count > 1, keeps_room)


def _compile_array(
    argument: FetchArg, value: Callable[[State], int | None], *, user: bool, empty_is_fault: bool, keeps_room: bool
) -> Callable[[State], Text]:
    """Compile an array of strings: the last dereference reads consecutive pointers."""
    count = argument.length
    derefs = argument.expression.derefs
    if not derefs:  # an immediate address: the kernel gives up after the first element

        def immediate(state: State) -> Text:
            item = _read(state, value(state) or 0, user, empty_is_fault)
            return Text((item,), count, count > 1, keeps_room)

        return immediate

    offset, user_pointers, _ = derefs[-1]

    def array(state: State) -> Text:
        start = _followed(state, value)
        items: list[Item] = []
        for index in range(count if start is not None else 0):
            address = ((start or 0) + offset + 8 * index) & ULONG_MAX
            pointer = fetch(state.memory, address, 8, user=user_pointers)
            if pointer is None:
                _again(state, partial(fetch, state.memory, address, 8, user=user_pointers))
                break
            items.append(_read(state, int.from_bytes(pointer, "little"), user, empty_is_fault))
        return Text(items, count, len(items) < count, keeps_room)

    return array


def lay_out_texts(texts: Sequence[Text], start: int) -> tuple[list[bytes], bytes, Sequence[Hole]]:
    """Write strings after the fixed part of a record, which ends at byte `start`.

    Returns the data locations of each text (length << 16 | offset), the bytes after the fixed part, and what of
    these was measured but not written.
    """
    room = sum(item.measured for text in texts if not text.fails for item in text.items)
    tail = bytearray(room)
    unwritten = set(range(room))
    position = 0
    locations = []
    for text in texts:
        location = bytearray(4 * text.length)
        here, left = position, room
        for index in range(text.length):
            location[4 * index : 4 * index + 4] = ((left << 16 | start + here & 0xFFFF) & 0xFFFFFFFF).to_bytes(
                4, "little"
            )
            if index == len(text.items):
                break  # the fetch failed here: this location keeps the room, and those after it are never set
            written = text.items[index].write(left)
            tail[here : here + len(written.content)] = written.content
            unwritten.difference_update(range(here, here + len(written.content)))
            word = written.length << 16 | start + here & 0xFFFF
            if not (written is _NOTHING or written is _FAULTED) or not text.keeps_room:
                location[4 * index : 4 * index + 4] = (word & 0xFFFFFFFF).to_bytes(4, "little")
            here += written.used
            left -= written.used
        if not text.fails:
            position, room = here, left
        locations.append(bytes(location))
    return locations, bytes(tail), [Hole(index, 1) for index in sorted(unwritten)]
