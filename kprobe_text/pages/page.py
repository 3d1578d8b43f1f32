"""A page of the ring buffer -> records.

events/header_page and events/header_event describe the layout of a page.  The encoding of its events is that of
include/linux/ring_buffer.h (enum ring_buffer_type): the same from 2.6.30 to 7.3, but for time stamps, new in 4.17.
"""

import struct
import sys
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from kprobe_text.pages.bounds import SENTENCES
from kprobe_text.pages.events import Events, Known
from kprobe_text.pages.fields import BrokenRecord
from kprobe_text.pages.flags import ALL_LETTERS, Flags, Letters
from kprobe_text.pages.ftrace_events import special
from kprobe_text.pages.header import PageHeader
from kprobe_text.pages.kallsyms import Kallsyms
from kprobe_text.pages.tasks import Tasks
from kprobe_text.text.records import NONE, Clock, Event, Header, Lost, Record, Unnamed, Unparsed

Stamped: TypeAlias = tuple[int, Record]
"""A record and the time by which it is ordered."""

_MISSED: Final = 1 << 31
_STORED: Final = 1 << 30
_LENGTH: Final = (1 << 27) - 1
_PADDING, _EXTEND = 29, 30
_RECORD: Final = 16  # bytes of a short event's header
_TOP: Final = 31 << 59  # the bits of a time that an absolute time stamp lacks

_new = tuple.__new__


class _Position(NamedTuple):
    """The position in a page: the next event's byte and time, and the first byte that belongs to no record yet."""

    at: int
    stamp: int
    first: int


class Pages:
    """Reads the pages of one buffer.

    The ``raw`` of a page's records, joined, is the page: bytes before an event belong to it, bytes after the last one
    to that, and a page without events is a `Header`.  Nothing is raised: what can't be an event, and all after it, is
    `Unparsed`, and ``problems`` has a sentence on it with the position.

    ``tasks`` and ``tgids`` can be changed from page to page.
    """

    def __init__(
        self,
        header: PageHeader,
        events: Events,
        kallsyms: Kallsyms,
        *,
        tasks: Tasks | None = None,
        tgids: dict[int, int] | None = None,
        clock: Clock = "time",
        letters: Letters = ALL_LETTERS,
        instance: str = "",
    ) -> None:
        self.header = header
        self.tasks = Tasks() if tasks is None else tasks
        self.tgids = {} if tgids is None else tgids
        self.problems: list[str] = []
        self.events = events
        self.places = kallsyms
        self.clock: Clock = clock
        self.flags = Flags(letters)
        self.instance = instance
        order = "<" if header.order == "little" else ">"
        self._word = struct.Struct(f"{order}I").unpack_from
        self._short = struct.Struct(f"{order}H").unpack_from
        self._stamp = struct.Struct(f"{order}Q").unpack_from
        self._long = struct.Struct(order + ("Q" if header.long == 8 else "I")).unpack_from
        self._type: int | None = None

    def read(self, page: bytes, cpu: int, *, offset: int = 0) -> list[Stamped]:
        """Return a page's records in its order; ``offset`` is where it begins in its file, for messages."""
        return next(self.parts(page, cpu, offset=offset))

    def parts(self, page: bytes, cpu: int, *, offset: int = 0, most: int = sys.maxsize) -> Iterator[list[Stamped]]:
        """Yield a page's records in parts, at least once."""
        header = self.header
        if len(page) <= header.data:
            yield [(0, self._broken(page, cpu, offset, f"a page breaks off after {len(page)} bytes"))]
            return
        stamp = self._stamp(page, header.stamp)[0]
        commit = self._long(page, header.commit)[0]
        stop = header.data + (commit & _LENGTH)
        if stop > header.size:
            words = f"a page says that it has {commit & _LENGTH} bytes of data, more than it has room for"
            yield [(stamp, self._broken(page, cpu, offset, words))]
            return
        found: list[Stamped] = []
        position = _Position(header.data, stamp, 0)
        if commit & _MISSED:
            stored = commit & _STORED and stop + header.long <= len(page)
            found.append((stamp, Lost(cpu, self._long(page, stop)[0] if stored else None, page[: header.data])))
            position = position._replace(first=header.data)
        words = ""
        if stop > len(page):
            words = f"a page breaks off after {len(page)} bytes, its data goes to {stop}"
            stop = len(page)
        while True:
            position, broken = self._walk(page, cpu, stop, position, found, most)
            if broken is not None:
                break
            # the last waits, as the page's last event gets what fills the page
            yield found[:-1]
            del found[:-1]
        _, stamp, first = position
        if broken or words:
            rest = self._broken(page[first:], cpu, offset, words or broken)
            found.append((found[-1][0] if found else stamp, rest))
        elif first < len(page):
            if first and isinstance(found[-1][1], Event):
                # the page's padding belongs to its last event
                stamp, last = found[-1]
                found[-1] = (stamp, last._replace(raw=last.raw + page[first:]))
            else:
                found.append((found[-1][0] if found else stamp, Header(page[first:])))
        yield found

    def _walk(  # noqa: C901 - one event after the other, in one loop: a call for each would take as long
        self, page: bytes, cpu: int, stop: int, position: _Position, found: list[Stamped], most: int
    ) -> tuple[_Position, str | None]:
        """Append the records of a page's data from a position on, until there are more than `most`, or about as many.

        Return the position of the next one, and what is wrong: None if more follows.
        """
        at, stamp, first = position
        word_at, short_at, is_little = self._word, self._short, self.header.order == "little"
        events, tasks, tgids, columns, places = self.events, self.tasks, self.tgids, self.flags, self.places
        clock, instance, complete, guessed, forgeable = self.clock, self.instance, True, NONE, False
        type_at = self._type_offset()
        until = at + _RECORD * most
        while at + 4 <= stop:
            if len(found) > most or at > until:
                return _Position(at, stamp, first), None
            word = word_at(page, at)[0]
            kind, delta = (word & 31, word >> 5) if is_little else (word >> 27, word & 0x7FFFFFF)
            if kind == _PADDING and not delta:
                return _Position(at, stamp, first), ""
            if 0 < kind < _PADDING:
                begin = at + 4
                end = begin + 4 * kind
            else:
                if at + 8 > stop:
                    return _Position(at, stamp, first), f"an event at byte {at} of a page ends before its second word"
                more = word_at(page, at + 4)[0]
                if kind > _PADDING:
                    stamp = _later(stamp, kind, delta + (more << 27))
                    at += 8
                    continue
                begin, end = at + 8, at + 4 + more
            if end > stop or end < begin:
                words = f"an event at byte {at} of a page would end at {end}, and the page's data at {stop}"
                return _Position(at, stamp, first), words
            at = end
            if kind == _PADDING:
                # a discarded event; where its time was 0 the kernel wrote 1, which doesn't count
                stamp += delta if delta != 1 else 0
                continue
            stamp += delta
            known = events[short_at(page, begin + type_at)[0]] if begin + type_at + 2 <= end else None
            try:
                if known is None or known.special:
                    raise BrokenRecord
                flag, depth, pid, address, caller, fields = known.reader.complete(page, begin, end)
            except BrokenRecord:
                found.append((stamp, self._other(known, page, (begin, end), cpu, stamp, page[first:end])))
                first = end
                continue
            task, tgid, raw, name, group = tasks[pid], tgids.get(pid), page[first:end], known.name, known.group
            flags, timestamp = columns[flag << 8 | depth], stamp
            address = None if address is None else places[address]
            caller = None if caller is None else places[caller]
            # like Event(…) at less than half the cost; a test checks that these are its fields, in their order
            record: Record = _new(
                Event,
                (
                    task, pid, cpu, flags, timestamp, name, address, caller, fields, tgid, clock, raw, complete,
                    guessed, group, instance, forgeable,
                ),
            )  # fmt: skip
            first = end
            found.append((stamp, record))
        words = "" if at >= stop else f"the data of a page ends within an event, at byte {stop}"
        return _Position(at, stamp, first), words

    def _other(
        self, known: Known | None, page: bytes, bounds: tuple[int, int], cpu: int, stamp: int, raw: bytes
    ) -> Record:
        """Return the record of anything but a complete hit: a special event, a part, or an event without a format."""
        begin, end = bounds
        reader = self.events.common() if known is None else known.reader
        if reader is None:
            return Unparsed(raw)
        flag, depth, pid, address, caller, fields = reader.partly(page, begin, end)
        context = self.tasks[pid], pid, cpu, self.flags[flag << 8 | depth], stamp
        after: tuple[Any, ...] = self.tgids.get(pid), self.clock, raw
        if known is None:
            if begin + self._type_offset() + 2 > end:
                return Unparsed(raw)
            return Unnamed(*context, self._short(page, begin + self._type_offset())[0], *after)
        if known.special:
            tail = page[begin + known.reader.layout.size : end]
            record = special(known, context, fields, tail, self.places, after)
            if record is not None:
                return record
        is_whole = bool(known.special) and len(fields) == len(known.reader.layout.fields)
        at = None if address is None else self.places[address]
        back = None if caller is None else self.places[caller]
        return Event(
            *context, known.name, at, back, fields, after[0], after[1], after[2], is_whole, NONE, known.group,
            self.instance,
        )  # fmt: skip

    def _type_offset(self) -> int:
        if self._type is None:
            reader = self.events.common()
            named = {field.name: field.offset for field in reader.layout.common} if reader is not None else {}
            self._type = named.get("common_type", 0)
        return self._type

    def _broken(self, raw: bytes, cpu: int, offset: int, words: str) -> Unparsed:
        if len(self.problems) < SENTENCES:
            self.problems.append(f"CPU {cpu}, page at byte {offset}: {words}; {len(raw)} bytes are not understood")
        return Unparsed(raw)


def _later(before: int, kind: int, stamp: int) -> int:
    """Return the time after a time extend or an absolute time stamp.

    The latter has 59 bits; the upper ones are those of the time before it (ring_buffer.c: rb_fix_abs_ts).
    """
    if kind == _EXTEND:
        return before + stamp
    if not before & _TOP:
        return stamp
    stamp |= before & _TOP
    return stamp + (1 << 59) if stamp < before else stamp
