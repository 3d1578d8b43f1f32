"""The fast way to read: runs of probes' lines in the standard layout, which make up most of a trace, many at once.

It gives the records that `record_builder` gives, and leaves to that every line that isn't plain.
"""

from io import BytesIO
from typing import Final, TypeAlias

from kprobe_text.text.arguments import Reader
from kprobe_text.text.context import Columns, keep
from kprobe_text.text.descriptions import Site
from kprobe_text.text.layout import PROBE_LINE, STANDARD
from kprobe_text.text.record_builder import Known, RecordBuilder
from kprobe_text.text.records import NONE, CodeAddress, Event, Record, Value

# How much text is cut into lines at once, and how many lines are read at once.
_WINDOW: Final = 1 << 13
_BATCH: Final = 512

# How many texts of arguments are kept with their values, for all events; how long they may be; and for how many lines
# they are kept, as what a system does changes. About 1 MB.
_KNOWN: Final = 2048
_LENGTH: Final = 160
_LINES: Final = 1 << 16

_new = tuple.__new__

# name, address, caller, the arguments' reader if nothing else matters, the texts that were read before, the site, and
# what every record with a string contains (see Site)
_Place: TypeAlias = tuple[str, CodeAddress | None, CodeAddress | None, Reader | None, dict[str, Known], Site, str]


def _alone(read: Reader, opens: str) -> Reader:
    """Make a reader that refuses arguments which may hold another record."""

    def alone(text: str) -> dict[str, Value] | None:
        return None if opens in text else read(text)

    return alone


class FastPath:
    """Does what `RecordBuilder.record` does, and takes from tables what repeats.

    Text is read as Latin-1, one character for each byte, which is faster than bytes. ``reach`` is how far in the text
    the strings of earlier records may go on: ``longest`` bytes from the end of a record.
    """

    __slots__ = (
        "_builder", "_columns", "_index", "_places", "_position", "_raws", "_read", "_room", "_rows", "_seconds",
        "longest", "reach",
    )  # fmt: skip

    def __init__(self, builder: RecordBuilder, longest: int) -> None:
        self._builder = builder
        self.longest = longest
        self.reach = 0
        self._columns: dict[str, Columns] = {}
        self._seconds: dict[str, int] = {}
        self._places: dict[str, _Place] = {}
        self._room = _KNOWN
        self._read = 0  # lines since texts were forgotten
        self.begin()

    def opens(self, site: bytes) -> str:
        """Return what every record of ``name: (address)`` contains whose string could imitate records; "" if none."""
        return self._builder.site(site).opens

    def begin(self) -> None:
        """Forget the lines of the last text: another text comes."""
        self._rows: list[tuple[str, str, str, str, str]] = []
        self._raws: list[bytes] = []
        self._index = self._position = 0

    def read(self, text: bytes, position: int, limit: int, records: list[Record]) -> int:
        """Read lines while each is a probe's event and so is the next; return where they end."""
        while self._cut(text, position, limit):
            if not self._rows[self._index][3] or not self._events(text, limit, records):
                return self._position
            position = self._position
        return position

    def _cut(self, text: bytes, position: int, limit: int) -> bool:
        """Cut the text into lines from a position on; False if there are fewer than two."""
        while self._position < position and self._index < len(self._raws):
            self._position += len(self._raws[self._index])
            self._index += 1
        if self._position != position or self._index + 1 >= len(self._rows):
            end = limit if limit - position <= _WINDOW else text.rfind(b"\n", position, position + _WINDOW) + 1
            if not end or text.find(b"\n", position, end - 1) < 0:  # no end: a line longer than any kernel prints
                return False
            piece = text[position:end]
            self._rows = PROBE_LINE.findall(piece.decode("latin-1"))
            self._raws = BytesIO(piece).readlines()
            self._index, self._position = 0, position
            self._read += len(self._rows)
            if self._read > _LINES and not self._room:
                for place in self._places.values():
                    place[4].clear()
                self._room, self._read = _KNOWN, 0
        return True

    def _events(  # noqa: C901 - calls cost as much as what they would do
        self, text: bytes, limit: int, records: list[Record]
    ) -> bool:
        """Build events from the next line on; False at a line that isn't an event followed by a record."""
        columns, seconds, places, rows = self._columns, self._seconds, self._places, self._rows
        new, event, append = _new, Event, records.append
        clock, group, instance = "time", "", ""
        at, reach, longest = self._position, self.reach, self.longest
        index = start = self._index
        stop = min(start + _BATCH, len(rows))
        for (context, second, fraction, shown, rest), raw in zip(rows[start:stop], self._raws[start:stop], strict=True):
            place = places.get(shown)
            if place is None:
                if not shown:
                    break
                place = self._place(shown)
            name, address, caller, read, known, _, opens = place
            found = known.get(rest)
            if found is not None:
                fields, complete, guessed = found
                fields = fields.copy()
            elif read is not None and (plain := read(rest)) is not None:
                fields, complete, guessed = plain, True, NONE
                if self._room and len(rest) < _LENGTH:
                    self._room -= 1
                    known[rest] = plain.copy(), True, NONE
            else:
                # what follows must be known before anything is learned of the line
                is_followed = index + 1 < len(rows) and rows[index + 1][3]
                if not is_followed or (found := self._arguments(place, context, rest)) is None:
                    break
                fields, complete, guessed = found
            task, pid, tgid, cpu, flags = columns.get(context) or self._context(context)
            timestamp = (seconds.get(second) or self._second(second)) + int(fraction) * 1000
            index += 1
            start_of_line = at
            at += len(raw)
            if opens and opens in rest:
                reach = at + longest
            forgeable = start_of_line < reach
            # what Event(…) does, at less than half the cost; a test holds that these are its fields, in their order
            append(
                new(
                    event,
                    (
                        task, pid, cpu, flags, timestamp, name, address, caller, fields, tgid, clock, raw, complete,
                        guessed, group, instance, forgeable,
                    ),
                )
            )  # fmt: skip
        self._index, self._position, self.reach = index, at, reach
        if index == start:
            return False
        if (index == len(rows) or not rows[index][3]) and STANDARD.match(text, self._position, limit) is None:
            # a record is over where another begins
            self._index -= 1
            self._position -= len(self._raws[self._index])
            records.pop()
            return False
        return index == stop

    def _arguments(self, place: _Place, context: str, rest: str) -> Known | None:
        """Read arguments whose types alone don't settle them; None if they can't be read to the end."""
        _, address, _, _, known, site, _ = place
        if address is None:
            return None
        columns = context.encode("latin-1")
        if len(site.opens) > 1 and site.opens in rest:
            return None  # another record may be in it, and have the seal
        found = self._builder.arguments(site, columns, rest.encode("latin-1"))
        if found is not None and not found[1]:
            return None  # a string may go on in what follows
        if found is not None and self._room and len(rest) < _LENGTH and self._builder.settled(site, columns):
            self._room -= 1
            known[rest] = found[0].copy(), found[1], found[2]
        return found

    def _place(self, text: str) -> _Place:
        site = self._builder.site(text.encode("latin-1"))
        arguments = site.arguments
        # with a definition the dialect matters, with two strings where else the first could end
        is_plain = arguments is not None and site.address is not None and site.definition is None and not arguments.ends
        read = arguments.read_text if arguments is not None and is_plain else None
        is_sealed = len(site.opens) > 1
        if read is not None and is_sealed:
            read = _alone(read, site.opens)
        opens = "" if is_sealed else site.opens
        return keep(self._places, text, (site.name, site.address, site.caller, read, {}, site, opens))

    def _context(self, text: str) -> Columns:
        return keep(self._columns, text, self._builder.columns(text.encode("latin-1")))

    def _second(self, text: str) -> int:
        return keep(self._seconds, text, int(text) * 1_000_000_000)
