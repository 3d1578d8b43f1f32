"""Records as a trace that ui.perfetto.dev opens: Perfetto's protobuf, written as the records arrive.

The messages and their numbers are those of perfetto's trace.proto: Trace, TracePacket, TrackDescriptor, TrackEvent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kprobe_text.figures.pairs import Pairs
from kprobe_text.figures.shape import value
from kprobe_text.text import BufferStarted, Event, Lost, Marker, RawMarker, Record, StackTrace

BEGIN, END, INSTANT = 1, 2, 3  # TrackEvent.Type
CLEARED = 1  # TracePacket.SequenceFlags: nothing refers to packets before
SEQUENCE = 1
# Tracks that are remembered; a task whose track was forgotten is described again, as the same track.
TRACKS = 8192
SHOWN = 1000  # nanoseconds: the resolution of time in text
CPU_TRACK, IDLE_TRACK, THREAD_TRACK = 1, 2, 3


def varint(number: int) -> bytes:
    """Write a number as protobuf does; a negative one as 64 bits of two's complement."""
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """Write a field that holds a number."""
    return varint(field << 3) + varint(value)


def block(field: int, data: bytes) -> bytes:
    """Write a field that holds a message or bytes."""
    return varint(field << 3 | 2) + varint(len(data)) + data


def words(field: int, text: str) -> bytes:
    """Write a field that holds text: UTF-8 without a NUL, which would end it; other bytes are replaced."""
    return block(field, text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("\0", "␀").encode())


class Perfetto:
    """Writes records as slices (calls: an entry and its return) and instants (all else), a track for each task.

    Several events of a task within the microsecond that text shows get times a nanosecond apart, in their order. Each
    CPU's lost events are on a track of that CPU.
    """

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._tracks: dict[int, str] = {}
        self._pairs = Pairs()
        self._times: dict[int, int] = {}
        self._now = 0
        self._packet(number(13, CLEARED))

    def add(self, record: Record) -> None:
        """Write a record, or keep an entry until its return is there."""
        if isinstance(record, Event):
            self._now = max(self._now, record.timestamp)
            # among its task's events, its position in the text decides its time, not when it is written
            record = record._replace(timestamp=self._time(record))
            for entry, leave in self._pairs.take(record):
                self._call(entry, leave)
        elif isinstance(record, StackTrace):
            frames = {"frames": "\n".join(frame.text for frame in record.frames)}
            self._event(
                INSTANT, self._task(record), self._time(record), "user stack" if record.user else "stack", frames
            )
        elif isinstance(record, Marker):
            self._event(INSTANT, self._task(record), self._time(record), record.text, {})
        elif isinstance(record, RawMarker):
            read = {"identifier": record.identifier, "data": record.data.hex()}
            self._event(INSTANT, self._task(record), self._time(record), "raw marker", read)
        elif isinstance(record, Lost):
            self._event(INSTANT, self._cpu(record.cpu), self._now, "lost events", {"count": record.count})
        elif isinstance(record, BufferStarted):
            self._event(INSTANT, self._cpu(record.cpu), self._now, "buffer started", {})

    def end(self) -> None:
        """Note that a trace is over: write the entries that have no return."""
        for entry in self._pairs.unreturned():
            self._call(entry, None)

    def _call(self, entry: Event | None, leave: Event | None) -> None:
        if entry is None or leave is None:
            if (event := entry or leave) is not None:
                self._event(INSTANT, self._task(event), event.timestamp, event.name, _said(event))
            return
        track = self._task(entry)
        name = "" if leave.address is None else leave.address.symbol or leave.address.text
        self._event(BEGIN, track, entry.timestamp, name, _said(entry))
        # both ends of a slice share one set of keys, so the return's values need their own keys
        self._event(END, track, leave.timestamp, "", {"return": _said(leave)})

    def _time(self, record: Event | StackTrace | Marker | RawMarker) -> int:
        track, time = _track(record), record.timestamp
        last = self._times.pop(track, -1)
        if 0 <= last - time < SHOWN:
            time = last + 1
        if len(self._times) >= TRACKS:
            del self._times[next(iter(self._times))]
        self._times[track] = time
        return time

    def _task(self, record: Event | StackTrace | Marker | RawMarker) -> int:
        track = _track(record)
        if self._tracks.get(track) != record.task:
            if record.pid == 0:
                self._describe(track, record.task, words(2, f"{record.task} on CPU {record.cpu}"))
            else:
                thread = number(1, record.tgid or record.pid) + number(2, record.pid) + words(5, record.task)
                self._describe(track, record.task, block(4, thread))
        return track

    def _cpu(self, cpu: int) -> int:
        track = cpu << 2 | CPU_TRACK
        if track not in self._tracks:
            self._describe(track, "", words(2, f"CPU {cpu}"))
        return track

    def _describe(self, track: int, name: str, described: bytes) -> None:
        if len(self._tracks) >= TRACKS:
            self._tracks.clear()
        self._tracks[track] = name
        self._packet(block(60, number(1, track) + described))

    def _event(self, kind: int, track: int, time: int, name: str, said: Mapping[str, object]) -> None:
        event = number(9, kind) + number(11, track) + (words(23, name) if name else b"")
        for key, read in said.items():
            event += block(4, words(10, key) + _shown(read))
        self._packet(number(8, time) + block(11, event))

    def _packet(self, packet: bytes) -> None:
        self._write(block(1, packet + number(10, SEQUENCE)))


def _track(record: Event | StackTrace | Marker | RawMarker) -> int:
    """Return a task's track; each CPU has an idle task, all with pid 0."""
    return record.cpu << 2 | IDLE_TRACK if record.pid == 0 else record.pid << 2 | THREAD_TRACK


def _said(event: Event) -> dict[str, object]:
    """Return an event's annotations, except time and task; an argument may share the name of a common one."""
    said: dict[str, object] = {name: value(read) for name, read in event.fields.items()}
    own: dict[str, object] = {"cpu": event.cpu, "event": event.name}
    if event.caller is not None:
        own["caller"] = event.caller.text
    if not event.complete or event.guessed:
        own["unsure"] = "not all understood" if not event.complete else "guessed: " + " ".join(sorted(event.guessed))
    hidden = {name: read for name, read in own.items() if name in said}
    return {
        **said,
        **{name: read for name, read in own.items() if name not in said},
        **({"line": hidden} if hidden else {}),
    }


def _shown(read: object) -> bytes:
    """Write a value as in a DebugAnnotation."""
    if isinstance(read, int):
        return number(4 if -(1 << 63) <= read < 1 << 63 else 3, read)
    if isinstance(read, dict) and read:
        return b"".join(block(11, words(10, key) + _shown(part)) for key, part in read.items())
    if isinstance(read, list) and read:
        return b"".join(block(12, _shown(part)) for part in read)
    return words(6, "(fault)" if read is None else str(read))
