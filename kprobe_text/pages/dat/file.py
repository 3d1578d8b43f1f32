"""The records of a trace.dat, from all its instances and CPUs, in the order of time."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

from kprobe_text.pages.bounds import (
    BESIDES,
    BESIDES_FILLED,
    HELD,
    PAGES_OF_PART,
    PART,
    PARTS,
    SENTENCES,
    SYMBOLS,
    TASKS,
    TIMES,
    TIMES_FILLED,
)
from kprobe_text.pages.clocks import COUNTS
from kprobe_text.pages.dat.compression import unpacker
from kprobe_text.pages.dat.contents import MAGIC, Buffer, Contents, CpuData, check_pages, opening
from kprobe_text.pages.dat.cursor import Cursor, Data, FileBytes, NotTraceDat
from kprobe_text.pages.dat.version6 import contents as contents_of_6
from kprobe_text.pages.dat.version7 import contents as contents_of_7
from kprobe_text.pages.events import Events
from kprobe_text.pages.flags import letters_of
from kprobe_text.pages.header import check_event_header, page_header
from kprobe_text.pages.kallsyms import Kallsyms
from kprobe_text.pages.merging import merged
from kprobe_text.pages.page import Pages, Stamped
from kprobe_text.pages.tasks import Tasks
from kprobe_text.text.parser import Parser
from kprobe_text.text.records import Record

__all__ = ["MAGIC", "FileBytes", "NotTraceDat", "TraceDat"]

_AT_ONCE = 1 << 16  # bytes that are read at once, or a page
_CLOCKS = (*COUNTS, "tsc2nsec")


class TraceDat:
    """A trace.dat of version 6 or 7, from bytes or an open file, which are read as the records are.

    ``problems`` has a sentence on all that isn't understood, once the records have been read.  Raises NotTraceDat if
    its beginning isn't complete; where only pages are missing, the others are read, and the gap is a problem.
    """

    def __init__(self, data: Data, name: str = "trace.dat") -> None:
        self._data = data
        self._name = name
        first = Cursor(data, "little", name)
        begun = opening(first)
        cursor = Cursor(data, begun.order, name, first.position)
        self.contents: Contents = (contents_of_6 if begun.version == 6 else contents_of_7)(cursor, begun)
        self._notes: list[str] = list(self.contents.notes)
        self._pages: list[Pages] = []
        self._given = data.given if isinstance(data, FileBytes) else len(data)
        self._made = 0  # unpacked bytes
        self._held = 0  # unpacked bytes that are held
        self._filled = 0  # bytes of its pages
        try:
            check_pages(list(self.contents.buffers))
        except NotTraceDat as error:
            raise NotTraceDat(f"{name}: {error}") from error
        self._check_places()
        found = self.contents
        if (symbols := found.kallsyms.count(b"\n")) > SYMBOLS:
            self._notes.append(f"kallsyms has {symbols} lines, more than {SYMBOLS}: addresses are shown as numbers")
            found = self.contents = found._replace(kallsyms=b"")
        try:
            self._header = page_header(found.header_page, order=begun.order) if found.buffers else None
            if found.buffers:
                check_event_header(found.header_event)
            long = self._header.long if self._header is not None else begun.long
            self._kallsyms = Kallsyms(lambda: found.kallsyms, long=long)
            order = "<" if begun.order == "little" else ">"
            self._events = Events(found.formats, order, self._kallsyms.symbol, long=long)
        except ValueError as error:
            raise NotTraceDat(f"{name}: {error}") from error
        self._tasks = Tasks()
        if (tasks := found.cmdlines.count(b"\n")) > TASKS:
            self._notes.append(f"saved_cmdlines has {tasks} lines, more than {TASKS}: the names of tasks aren't known")
        else:
            self._tasks.read(found.cmdlines)

    @property
    def problems(self) -> list[str]:
        """Sentences on what isn't understood, as far as the records have been read."""
        found = [problem for pages in self._pages for problem in pages.problems]
        return [f"{self._name}: {words}" for words in (*self._notes, *self._events.problems, *found)]

    def records(self) -> Iterator[Record]:
        """Yield the records; traces that were saved as text come first."""
        formats = {name: data for data in self._formats() if (name := _name(data))} if self.contents.texts else {}
        for text in self.contents.texts:
            parser = Parser(formats)
            place = CpuData(0, text.offset, text.size)
            for piece in self._pieces(place, is_packed=text.is_packed, page_size=1 << 16):
                yield from parser.feed(piece)
            yield from parser.close()
        yield from merged([cpu for buffer in self.contents.buffers for cpu in self._cpus(buffer)])

    def pages(self, buffer: Buffer, cpu_data: CpuData) -> Iterator[tuple[int, bytes]]:
        """Yield the pages of a CPU, each with where it begins in the CPU's data."""
        held: list[bytes] = []
        at, length, size = 0, 0, buffer.page_size
        for piece in self._pieces(cpu_data, is_packed=buffer.is_packed, page_size=size):
            held.append(piece)
            length += len(piece)
            if length < size:
                continue
            data = b"".join(held)
            whole = length - length % size
            for start in range(0, whole, size):
                page = data[start : start + size]
                if buffer.is_packed and not self._has_room(page):
                    return
                yield at + start, page
            at, length = at + whole, length - whole
            held = [data[whole:]] if length else []
        if length:
            yield at, b"".join(held)

    def reader(self, buffer: Buffer) -> Pages:
        """Return the reader of a buffer's pages; its problems are those of the file."""
        assert self._header is not None
        pages = Pages(
            self._header.of_size(buffer.page_size), self._events, self._kallsyms, tasks=self._tasks,
            clock="count" if buffer.clock in _CLOCKS else "time", instance=buffer.name,
            letters=letters_of(self.contents.uname),
        )  # fmt: skip
        self._pages.append(pages)
        return pages

    def _cpus(self, buffer: Buffer) -> list[Iterator[list[Stamped]]]:
        pages = self.reader(buffer)
        cpus = sum(bool(cpu.size) for buffer in self.contents.buffers for cpu in buffer.cpus)

        def read(place: CpuData) -> Iterator[list[Stamped]]:
            added = self.contents.added
            for at, page in self.pages(buffer, place):
                for found in pages.parts(page, place.cpu, offset=at, most=max(HELD // cpus, 1)):
                    yield [_later(item, added) for item in found] if added else found

        return [read(place) for place in buffer.cpus if place.size]

    def _pieces(self, place: CpuData, *, is_packed: bool, page_size: int) -> Iterator[bytes]:
        """Yield a CPU's data unpacked, some pages at a time; missing or broken data is a problem."""
        # the size of packed data excludes the number of its parts
        after = place.offset + place.size + (4 if is_packed and place.size else 0)
        end = min(after, len(self._data))
        if end < after:
            self._complain(
                f"it breaks off at byte {len(self._data)}: CPU {place.cpu} has {after - place.offset} bytes from byte "
                f"{place.offset} on, of which {max(end - place.offset, 0)} are there"
            )
        if not is_packed:
            step = page_size * max(_AT_ONCE // page_size, 1)
            for at in range(place.offset, end, step):
                yield bytes(self._data[at : min(at + step, end)])
            return
        if end <= place.offset:
            return
        name = f"CPU {place.cpu}"
        cursor = Cursor(self._data, self.contents.opening.order, name, place.offset, end)
        unpack = unpacker(self.contents.compression)
        most = max(PART, PAGES_OF_PART * page_size)
        try:
            for _ in range(cursor.number(4, "the number of packed parts")):
                size, becomes = cursor.number(4, "a packed size"), cursor.count(4, "an unpacked size", most)
                self._make(becomes)
                packed = cursor.take(size, "a packed part")
                yield from self._part(partial(unpack, packed, becomes), becomes, page_size)
        except NotTraceDat as error:
            where = "" if str(error).startswith(name) else f"{name}, byte {cursor.position}: "
            self._complain(f"{where}{error}; what follows of it is not understood")

    def _part(self, unpacked: Callable[[], bytes], size: int, page_size: int) -> Iterator[bytes]:
        """Yield a part; where those of other CPUs take too much memory already, unpack it anew for every few pages.

        All CPUs together hold at most PARTS more, or a page each.
        """
        if self._held + size > PARTS:
            cpus = max(sum(len(buffer.cpus) for buffer in self.contents.buffers), 1)
            step = page_size * max(PARTS // cpus // page_size, 1)
            for start in range(0, size, step):
                yield unpacked()[start : start + step]
            return
        self._held += size
        try:
            yield unpacked()
        finally:
            self._held -= size

    def _make(self, size: int) -> None:
        """Count bytes to be unpacked; raise NotTraceDat if they are too many for such a file."""
        self._made += size
        if self._made > TIMES * self._given + BESIDES:
            words = f"what is packed would become {self._made} bytes by now"
            raise NotTraceDat(f"{words}, more than {BESIDES} and {TIMES} times the file's {self._given}")

    def _has_room(self, page: bytes) -> bool:
        """Return whether a packed page may be read, given what those before it held."""
        self._filled += len(page.rstrip(b"\0"))
        most = TIMES_FILLED * self._given + BESIDES_FILLED
        if self._filled > most:
            words = f"the pages that are packed hold more than {most} bytes"
            self._complain(f"{words}, {BESIDES_FILLED} and {TIMES_FILLED} times the file's {self._given}")
        return self._filled <= most

    def _complain(self, words: str) -> None:
        if len(self._notes) < SENTENCES:
            self._notes.append(words)

    def _formats(self) -> list[bytes]:
        return [text if isinstance(text, bytes) else text.encode() for _, text in self.contents.formats]

    def _check_places(self) -> None:
        """Raise NotTraceDat if two CPUs share bytes: no trace-cmd writes that, and reading it would not end."""
        places = [(cpu.offset, cpu.size) for buffer in self.contents.buffers for cpu in buffer.cpus if cpu.size]
        places += [(text.offset, text.size) for text in self.contents.texts if text.size]
        places.sort()
        for (offset, size), (later, _) in pairwise(places):
            if later < offset + size:
                raise NotTraceDat(f"{self._name}: the data at byte {later} is also that of another CPU, at {offset}")


def _later(item: Stamped, added: int) -> Stamped:
    stamp, record = item
    if "timestamp" in record._fields:
        record = record._replace(timestamp=stamp + added)  # type: ignore[call-arg]  # those that have it
    return stamp + added, record


def _name(data: bytes) -> str:
    first = data.partition(b"\n")[0]
    return first.removeprefix(b"name: ").decode("utf-8", "surrogateescape") if first.startswith(b"name: ") else ""
