"""trace.dat of version 7: sections, which options point to (trace-cmd.dat.v7(5))."""

from collections.abc import Callable
from typing import NamedTuple

from kprobe_text.pages import bounds
from kprobe_text.pages.dat.compression import unpacker
from kprobe_text.pages.dat.contents import (
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
    Formats,
    LatencyText,
    Opening,
    check_buffers,
    check_number_of_options,
    header_info,
    times,
)
from kprobe_text.pages.dat.cursor import Cursor, NotTraceDat

_PACKED = 1  # flag of a section
_SECTION = {
    HEADER_INFO: "header info", FTRACE_EVENTS: "ftrace event formats", EVENT_FORMATS: "event formats",
    KALLSYMS: "kallsyms", PRINTK: "printk_formats", CMDLINES: "saved_cmdlines", BUFFER: "buffer",
    BUFFER_TEXT: "buffer text",
}  # fmt: skip
# the most bytes of all sections of a kind, unpacked, with the numbers that give the lengths of their parts
_NEEDED = {
    HEADER_INFO: 3 * bounds.HEADER, FTRACE_EVENTS: 2 * bounds.FORMATS, EVENT_FORMATS: 2 * bounds.FORMATS,
    DONE: bounds.OPTION_BYTES,
}  # fmt: skip
_LEFT_OUT = {KALLSYMS: bounds.KALLSYMS, PRINTK: bounds.PRINTK, CMDLINES: bounds.CMDLINES}


class _Section(NamedTuple):
    number: int
    flags: int
    size: int


class _Packed(NamedTuple):
    """The file's compression; `unpack` is None without one."""

    name: str
    unpack: Callable[[bytes, int], bytes] | None


class _Parts:
    """The contents of the sections without records."""

    def __init__(self) -> None:
        self.header_page = self.header_event = self.kallsyms = self.printk = b""
        self.cmdlines: list[bytes] = []
        self.formats = Formats()

    def read(self, number: int, part: Cursor) -> None:
        """Take in a section."""
        if number == HEADER_INFO:
            self.header_page, self.header_event = header_info(part)
        elif number == FTRACE_EVENTS:
            self.formats.read_ftrace(part)
        elif number == EVENT_FORMATS:
            self.formats.read_others(part)
        elif number == KALLSYMS:
            self.kallsyms = part.take(part.number(4, "the size of kallsyms"), "kallsyms")
        elif number == PRINTK:
            self.printk = part.take(part.number(4, "the size of printk_formats"), "printk_formats")
        else:
            self.cmdlines.append(part.take(part.number(8, "the size of saved_cmdlines"), "saved_cmdlines"))


def contents(cursor: Cursor, begun: Opening) -> Contents:
    """Read what follows the opening; raises NotTraceDat."""
    name = cursor.string("the name of the compression")
    cursor.string("the version of the compression")
    packed = _Packed("" if name == "none" else name, None if name == "none" else unpacker(name))
    sections = _Sections(cursor, packed)
    options = _options(cursor, cursor.number(8, "the offset of the options"), sections)
    parts = _Parts()
    buffers: list[Buffer] = []
    texts: list[LatencyText] = []
    for number, data in options:
        if number not in _SECTION:
            continue
        option = Cursor(data, cursor.order, f"option {number}")
        at = option.number(8, f"the offset of section {_SECTION[number]}")
        if number == BUFFER:
            buffers.append(_buffer(sections, option, at))
            check_buffers(buffers, texts)
        elif number == BUFFER_TEXT:
            place, section = sections.begin(at, number)
            check_buffers(buffers, texts)
            texts.append(
                LatencyText(option.string("the name"), place.position, section.size, bool(section.flags & _PACKED))
            )
        elif (part := sections.unpacked(at, number)) is not None:
            parts.read(number, part)
    if buffers and not parts.header_page:
        raise cursor.broken("no option says where header_page is, without which no page can be read")
    said = {
        number: data.partition(b"\0")[0].decode("utf-8", "surrogateescape")
        for number, data in options
        if number in (UNAME, VERSION)
    }
    added, notes = times(options)
    return Contents(
        begun, packed.name, parts.header_page, parts.header_event, tuple(parts.formats.formats), parts.kallsyms,
        parts.printk, b"".join(parts.cmdlines), said.get(UNAME, ""), said.get(VERSION, ""), added, tuple(buffers),
        tuple(texts), (*sections.notes, *notes),
    )  # fmt: skip


def _options(cursor: Cursor, at: int, sections: "_Sections") -> list[tuple[int, bytes]]:
    """Read the options of all their sections."""
    found: list[tuple[int, bytes]] = []
    while at:
        part = sections.unpacked(at, DONE)
        assert part is not None
        at = 0
        while part.left:
            number = part.number(2, "the number of an option")
            data = part.take(part.number(4, "the size of an option"), f"option {number}")
            if number == DONE:
                at = Cursor(data, cursor.order, "the last option").number(8, "the offset of more options")
                break
            found.append((number, data))
            check_number_of_options(len(found))
    return found


class _Sections:
    """The sections of a file, each read once; ``notes`` are sentences on those that are left out."""

    def __init__(self, cursor: Cursor, packed: _Packed) -> None:
        self.notes: list[str] = []
        self._cursor = cursor
        self._packed = packed
        self._seen: set[int] = set()
        self._read = dict.fromkeys((*_NEEDED, *_LEFT_OUT), 0)

    def begin(self, at: int, number: int) -> tuple[Cursor, _Section]:
        """Return the position of a section's bytes, and its description."""
        name = "options" if number == DONE else _SECTION[number]
        if at in self._seen:
            raise self._cursor.broken(f"section {name} at byte {at} is there twice: it leads back to itself")
        self._seen.add(at)
        place = self._cursor.at_byte(at, f"section {name}")
        found = place.number(2, f"the number of section {name}")
        flags = place.number(2, f"the flags of section {name}")
        place.number(4, f"the description of section {name}")
        size = place.number(8, f"the size of section {name}")
        if found != number:
            raise self._cursor.broken(f"section {name} should be at byte {at}, where section {found} is")
        return place, _Section(found, flags, size)

    def unpacked(self, at: int, number: int) -> Cursor | None:
        """Return a section's bytes; None if they are left out because all of its kind together are too large."""
        place, section = self.begin(at, number)
        name = "options" if number == DONE else _SECTION[number]
        size = becomes = section.size
        is_packed = bool(section.flags & _PACKED)
        if is_packed:
            if self._packed.unpack is None:
                raise self._cursor.broken(
                    f"section {name} at byte {at} is packed, though the file says that nothing is"
                )
            size, becomes = place.number(4, "a packed size"), place.number(4, "an unpacked size")
        self._read[number] += becomes
        if self._read[number] > (most := _NEEDED.get(number) or _LEFT_OUT[number]):
            words = f"section {name} at byte {at} has {becomes} bytes, and those of its kind more than {most}"
            if number in _NEEDED:
                raise self._cursor.broken(words)
            self.notes.append(f"{words}: it is left out")
            return None
        data = place.take(size, f"section {name}")
        if not is_packed:
            return Cursor(data, self._cursor.order, f"section {name} at byte {place.position}")
        assert self._packed.unpack is not None
        try:
            data = self._packed.unpack(data, becomes)
        except NotTraceDat as error:
            raise self._cursor.broken(f"section {name} at byte {at}: {error}") from error
        return Cursor(data, self._cursor.order, f"section {name}, from byte {at} of the file")


def _buffer(sections: _Sections, option: Cursor, at: int) -> Buffer:
    name, clock = option.string("the name of an instance"), option.string("its clock")
    page_size = option.number(4, "the size of its pages")
    count = option.count(4, "the number of its CPUs", option.left // 20)
    if not 64 <= page_size <= 1 << 27:
        raise option.broken(f"a page of {page_size} bytes can't be")
    _, section = sections.begin(at, BUFFER)
    cpus: list[CpuData] = []
    for _ in range(count):
        cpu = option.number(4, "the number of a CPU")
        cpus.append(CpuData(cpu, option.number(8, "the offset of a CPU's data"), option.number(8, "its size")))
    return Buffer(name, clock, page_size, tuple(cpus), bool(section.flags & _PACKED))
