"""The contents of a trace.dat of trace-cmd: trace-cmd.dat.v6(5) and trace-cmd.dat.v7(5)."""

from typing import Final, Literal, NamedTuple

from kprobe_text.pages.bounds import BUFFERS, CPUS, EVENTS, FORMATS, HEADER, OPTIONS, PAGES, PLACES
from kprobe_text.pages.dat.cursor import Cursor, NotTraceDat
from kprobe_text.pages.events import Format

MAGIC: Final = b"\x17\x08\x44tracing"

# numbers of options, of which some are those of sections too
DONE, DATE, BUFFER, TRACECLOCK, UNAME, OFFSET, CPUCOUNT, VERSION = 0, 1, 3, 4, 5, 7, 8, 9
TIME_SHIFT, TSC2NSEC, HEADER_INFO, FTRACE_EVENTS, EVENT_FORMATS, KALLSYMS, PRINTK = 12, 14, 16, 17, 18, 19, 20
CMDLINES, BUFFER_TEXT = 21, 22


class CpuData(NamedTuple):
    """Where the pages of a CPU lie in the file, in bytes."""

    cpu: int
    offset: int
    size: int


class Buffer(NamedTuple):
    """The buffer of an instance, ``name`` empty for the top one; ``page_size`` in bytes."""

    name: str
    clock: str
    page_size: int
    cpus: tuple[CpuData, ...]
    is_packed: bool


class LatencyText(NamedTuple):
    """A trace that was saved as text, where it lies in the file in bytes."""

    name: str
    offset: int
    size: int
    is_packed: bool


class Opening(NamedTuple):
    """The beginning of a file; ``long`` is the size of a long in the recorded machine's programs."""

    version: int
    order: Literal["little", "big"]
    long: int
    page_size: int


class Contents(NamedTuple):
    """The contents of a file; ``buffers`` says where the pages are.

    ``added`` is the shift of each time by its options, in nanoseconds.  ``notes`` are sentences on what isn't applied.
    ``compression`` is empty where nothing is packed.
    """

    opening: Opening
    compression: str
    header_page: bytes
    header_event: bytes
    formats: tuple[Format, ...]
    kallsyms: bytes
    printk: bytes
    cmdlines: bytes
    uname: str
    writer: str
    added: int
    buffers: tuple[Buffer, ...]
    texts: tuple[LatencyText, ...]
    notes: tuple[str, ...]


def opening(cursor: Cursor) -> Opening:
    """Read the first bytes and move the cursor past them; its byte order may still differ from the file's."""
    cursor.expect(MAGIC, "the first bytes of a trace.dat")
    version = cursor.string("the version")
    if version not in ("6", "7"):
        raise cursor.broken(f"version {version!r} of trace.dat isn't known: 6 and 7 are")
    order, long = cursor.number(1, "the order of bytes"), cursor.number(1, "the size of a long")
    if order > 1 or long not in (4, 8):
        raise cursor.broken(f"the order of bytes is {order}, which is 0 or 1, and a long has {long} bytes")
    cursor = Cursor(cursor.take(4, "the size of a page"), "big" if order else "little", "the size of a page")
    page_size = cursor.number(4, "it")
    if not 64 <= page_size <= 1 << 27:
        raise cursor.broken(f"a page of {page_size} bytes can't be")
    return Opening(int(version), cursor.order, long, page_size)


def header_info(cursor: Cursor) -> tuple[bytes, bytes]:
    """Read events/header_page and events/header_event."""
    cursor.expect(b"header_page\0", "the mark of header_page")
    page = cursor.take(cursor.number(8, "the size of header_page"), "header_page", HEADER)
    cursor.expect(b"header_event\0", "the mark of header_event")
    return page, cursor.take(cursor.number(8, "the size of header_event"), "header_event", HEADER)


class Formats:
    """The formats of a file's events, as they are read."""

    def __init__(self) -> None:
        self.formats: list[Format] = []
        self._bytes = 0

    def read_ftrace(self, cursor: Cursor) -> None:
        """Read the formats of group ftrace."""
        self._read(cursor, "ftrace")

    def read_others(self, cursor: Cursor) -> None:
        """Read the formats of all other groups."""
        for _ in range(cursor.count(4, "the number of event systems", EVENTS)):
            self._read(cursor, cursor.string("the name of an event system"))

    def _read(self, cursor: Cursor, group: str) -> None:
        for _ in range(cursor.count(4, f"the number of events of {group}", EVENTS - len(self.formats))):
            size = cursor.number(8, f"the size of a format of {group}")
            self.formats.append((group, cursor.take(size, f"a format of {group}", FORMATS - self._bytes)))
            self._bytes += size


def check_number_of_options(count: int) -> None:
    """Raise NotTraceDat if a file has too many options."""
    if count > OPTIONS:
        raise NotTraceDat(f"it has more than {OPTIONS} options")


def check_buffers(buffers: list[Buffer], texts: list[LatencyText]) -> None:
    """Raise NotTraceDat if CPUs have data in too many places; called after each buffer."""
    if len(buffers) + len(texts) > BUFFERS:
        raise NotTraceDat(f"it has more than {BUFFERS} instances")
    places = sum(len(buffer.cpus) for buffer in buffers)
    if places > PLACES:
        raise NotTraceDat(f"it has the places of the data of {places} CPUs, more than {PLACES}")


def check_pages(buffers: list[Buffer]) -> None:
    """Raise NotTraceDat if one page of each CPU takes too much memory."""
    sizes = [
        buffer.page_size if buffer.is_packed else min(buffer.page_size, cpu.size)
        for buffer in buffers
        for cpu in buffer.cpus
        if cpu.size
    ]
    if len(sizes) > CPUS:
        raise NotTraceDat(f"{len(sizes)} CPUs have data, more than {CPUS}")
    if sum(sizes) > PAGES:
        raise NotTraceDat(
            f"the pages of {len(sizes)} CPUs that are read at once have {sum(sizes)} bytes, more than {PAGES}"
        )


def times(options: list[tuple[int, bytes]]) -> tuple[int, list[str]]:
    """Return the shift of each time by the options, and a sentence on each option that isn't applied."""
    added, notes = 0, []
    for number, data in options:
        text = data[:64].partition(b"\0")[0].decode("ascii", "replace")
        if number in (DATE, OFFSET):
            try:
                # the first is in microseconds (trace-input.c)
                added += int(text, 0) * (1000 if number == DATE else 1)
            except ValueError:
                raise NotTraceDat(f"an option that shifts times is {text!r}, no number") from None
        elif number == TIME_SHIFT:
            notes.append("times are those of the guest: how they are shifted to its host's isn't applied")
        elif number == TSC2NSEC:
            notes.append("times are ticks of the processor's counter: how many there are in a second isn't applied")
        if not -1 << 63 <= added < 1 << 63:
            raise NotTraceDat(f"its options shift times by {added} ns, which has no room in 64 bits")
    return added, notes


def chosen_clock(text: bytes) -> str:
    """Return the clock in brackets, as in trace_clock."""
    return text.partition(b"[")[2].partition(b"]")[0].decode("ascii", "replace") or "local"
