"""trace.dat of version 6: its parts follow one another (trace-cmd.dat.v6(5))."""

from kprobe_text.pages.bounds import CMDLINES, KALLSYMS, OPTION_BYTES, PLACES, PRINTK
from kprobe_text.pages.dat.contents import (
    BUFFER,
    CPUCOUNT,
    TRACECLOCK,
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
    chosen_clock,
    header_info,
    times,
)
from kprobe_text.pages.dat.cursor import Cursor


def contents(cursor: Cursor, begun: Opening) -> Contents:
    """Read what follows the opening; raises NotTraceDat."""
    header_page, header_event = header_info(cursor)
    formats = Formats()
    formats.read_ftrace(cursor)
    formats.read_others(cursor)
    notes: list[str] = []
    kallsyms = cursor.take_if(cursor.number(4, "the size of kallsyms"), "kallsyms", KALLSYMS, notes)
    printk = cursor.take_if(cursor.number(4, "the size of printk_formats"), "printk_formats", PRINTK, notes)
    cmdlines = cursor.take_if(cursor.number(8, "the size of saved_cmdlines"), "saved_cmdlines", CMDLINES, notes)
    cpus = cursor.number(4, "the number of CPUs")
    mark = cursor.take(10, "the mark of what follows")
    options: list[tuple[int, bytes]] = []
    if mark == b"options  \0":
        while number := cursor.number(2, "the number of an option"):
            size = cursor.number(4, "the size of an option")
            options.append((number, cursor.take(size, f"option {number}", OPTION_BYTES)))
            check_number_of_options(len(options))
        mark = cursor.take(10, "the mark of the data")
    said = dict(options)
    counted = Cursor(said.get(CPUCOUNT, b""), cursor.order, "option CPUCOUNT")
    counted_cpus = counted.number(4, "the number of CPUs") if CPUCOUNT in said else cpus
    clock = chosen_clock(said.get(TRACECLOCK, b""))
    buffers: list[Buffer] = []
    texts: list[LatencyText] = []
    if mark == b"flyrecord\0":
        buffers.append(_buffer(cursor, "", clock, begun, cpus))
    elif mark == b"latency  \0":
        texts.append(LatencyText("", cursor.position, cursor.left, False))
    else:
        cursor.position -= 10
        raise cursor.broken(f"options, flyrecord or latency should follow, not {mark!r}")
    for number, data in options:
        if number == BUFFER:
            option = Cursor(data, cursor.order, "option BUFFER")
            at = option.number(8, "the offset of a buffer")
            name = option.string("the name of an instance")
            place = cursor.at_byte(at, f"the data of instance {name}")
            place.expect(b"flyrecord\0", f"the mark of the data of instance {name}")
            buffers.append(_buffer(place, name, clock, begun, counted_cpus))
            check_buffers(buffers, texts)
    added, more = times(options)
    return Contents(
        begun, "", header_page, header_event, tuple(formats.formats), kallsyms, printk, cmdlines,
        _text(said.get(UNAME, b"")), _text(said.get(VERSION, b"")), added, tuple(buffers), tuple(texts),
        (*notes, *more),
    )  # fmt: skip


def _buffer(cursor: Cursor, name: str, clock: str, begun: Opening, cpus: int) -> Buffer:
    if cpus * 16 > cursor.left or cpus > PLACES:
        raise cursor.broken(f"the places of {cpus} CPUs' data are not all there, or more than {PLACES}")
    places = [
        CpuData(cpu, cursor.number(8, "the offset of a CPU's data"), cursor.number(8, "its size"))
        for cpu in range(cpus)
    ]
    return Buffer(name, clock, begun.page_size, tuple(places), False)


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode("utf-8", "surrogateescape")
