"""trace.dat of version 7: sections, which options point to (trace-cmd.dat.v7(5))."""

from collections.abc import Callable
from typing import NamedTuple

from kprobe.pages.dat.compression import unpacker
from kprobe.pages.dat.contents import (
    BUFFER,
    BUFFER_TEXT,
    CMDLINES,
    DONE,
    EVENT_FORMATS,
    FTRACE_EVENTS,
    HEADER_INFO,
    KALLSYMS,
    PRINTK,
    UNAME,
    VERSION,
    Buffer,
    Contents,
    CpuData,
    LatencyText,
    Opening,
    event_formats,
    ftrace_formats,
    header_info,
    times,
)
from kprobe.pages.dat.cursor import Cursor, NotTraceDat
from kprobe.pages.events import Format

_PACKED = 1  # flag of a section
_SECTION = {
    HEADER_INFO: "header info", FTRACE_EVENTS: "ftrace event formats", EVENT_FORMATS: "event formats",
    KALLSYMS: "kallsyms", PRINTK: "printk_formats", CMDLINES: "saved_cmdlines", BUFFER: "buffer",
    BUFFER_TEXT: "buffer text",
}  # fmt: skip


class _Section(NamedTuple):
    number: int
    flags: int
    size: int


class _Packed(NamedTuple):
    """What the file is packed by; `unpack` is None if it isn't."""

    name: str
    unpack: Callable[[bytes, int], bytes] | None


class _Parts:
    """What the sections say that have no records."""

    def __init__(self) -> None:
        self.header_page = self.header_event = self.kallsyms = self.printk = self.cmdlines = b""
        self.formats: list[Format] = []

    def read(self, number: int, part: Cursor) -> None:
        """Take in a section."""
        if number == HEADER_INFO:
            self.header_page, self.header_event = header_info(part)
        elif number == FTRACE_EVENTS:
            self.formats += ftrace_formats(part)
        elif number == EVENT_FORMATS:
            self.formats += event_formats(part)
        elif number == KALLSYMS:
            self.kallsyms = part.take(part.number(4, "the size of kallsyms"), "kallsyms")
        elif number == PRINTK:
            self.printk = part.take(part.number(4, "the size of printk_formats"), "printk_formats")
        else:
            self.cmdlines += part.take(part.number(8, "the size of saved_cmdlines"), "saved_cmdlines")


def contents(cursor: Cursor, begun: Opening) -> Contents:
    """Read what follows the opening; raises NotTraceDat."""
    name = cursor.string("the name of the compression")
    cursor.string("the version of the compression")
    packed = _Packed("" if name == "none" else name, None if name == "none" else unpacker(name))
    options = _options(cursor, cursor.number(8, "the offset of the options"), packed)
    parts = _Parts()
    buffers: list[Buffer] = []
    texts: list[LatencyText] = []
    for number, data in options:
        if number not in _SECTION:
            continue
        option = Cursor(data, cursor.order, f"option {number}")
        at = option.number(8, f"the offset of section {_SECTION[number]}")
        if number == BUFFER:
            buffers.append(_buffer(cursor, option, at))
        elif number == BUFFER_TEXT:
            place, section = _section(cursor, at, number)
            texts.append(LatencyText(option.string("the name"), place.at, section.size, bool(section.flags & _PACKED)))
        else:
            parts.read(number, _unpacked(cursor, at, number, packed))
    if buffers and not parts.header_page:
        raise cursor.broken("no option says where header_page is, without which no page can be read")
    said = {number: data.partition(b"\0")[0].decode("utf-8", "surrogateescape") for number, data in options}
    added, notes = times(options)
    return Contents(
        begun, packed.name, parts.header_page, parts.header_event, tuple(parts.formats), parts.kallsyms, parts.printk,
        parts.cmdlines, said.get(UNAME, ""), said.get(VERSION, ""), added, tuple(buffers), tuple(texts), tuple(notes),
    )  # fmt: skip


def _options(cursor: Cursor, at: int, packed: _Packed) -> list[tuple[int, bytes]]:
    """Read the options of all their sections."""
    found: list[tuple[int, bytes]] = []
    seen: set[int] = set()
    while at:
        if at in seen:
            raise cursor.broken(f"the options at byte {at} lead back to themselves")
        seen.add(at)
        part = _unpacked(cursor, at, DONE, packed)
        at = 0
        while part.left:
            number = part.number(2, "the number of an option")
            data = part.take(part.number(4, "the size of an option"), f"option {number}")
            if number == DONE:
                at = Cursor(data, cursor.order, "the last option").number(8, "the offset of more options")
                break
            found.append((number, data))
    return found


def _section(cursor: Cursor, at: int, number: int) -> tuple[Cursor, _Section]:
    name = "options" if number == DONE else _SECTION[number]
    place = cursor.at_byte(at, f"section {name}")
    found = place.number(2, f"the number of section {name}")
    flags = place.number(2, f"the flags of section {name}")
    place.number(4, f"the description of section {name}")
    size = place.number(8, f"the size of section {name}")
    if found != number:
        raise cursor.broken(f"section {name} should be at byte {at}, where section {found} is")
    return place, _Section(found, flags, size)


def _unpacked(cursor: Cursor, at: int, number: int, packed: _Packed) -> Cursor:
    """Return a section's bytes."""
    place, section = _section(cursor, at, number)
    name = "options" if number == DONE else _SECTION[number]
    if not section.flags & _PACKED:
        return Cursor(place.take(section.size, f"section {name}"), cursor.order, f"section {name} at byte {place.at}")
    if packed.unpack is None:
        raise cursor.broken(f"section {name} at byte {at} is packed, though the file says that nothing is")
    size, becomes = place.number(4, "a packed size"), place.number(4, "an unpacked size")
    data = place.take(size, f"section {name}")
    try:
        return Cursor(packed.unpack(data, becomes), cursor.order, f"section {name}, from byte {at} of the file")
    except NotTraceDat as error:
        raise cursor.broken(f"section {name} at byte {at}: {error}") from error


def _buffer(cursor: Cursor, option: Cursor, at: int) -> Buffer:
    name, clock = option.string("the name of an instance"), option.string("its clock")
    page_size, count = option.number(4, "the size of its pages"), option.number(4, "the number of its CPUs")
    if not 64 <= page_size <= 1 << 27:
        raise option.broken(f"a page of {page_size} bytes can't be")
    _, section = _section(cursor, at, BUFFER)
    cpus: list[CpuData] = []
    for _ in range(count):
        cpu = option.number(4, "the number of a CPU")
        cpus.append(CpuData(cpu, option.number(8, "the offset of a CPU's data"), option.number(8, "its size")))
    return Buffer(name, clock, page_size, tuple(cpus), bool(section.flags & _PACKED))
