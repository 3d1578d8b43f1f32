"""`trace` and `trace_pipe`: the buffer as text, read with or without consuming it.

The renderer is imported by the first read that needs it.
"""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from kprobe_sim.events.instance import Instance
from kprobe_sim.records.ring import RingBuffer
from kprobe_sim.records.trace_seq import Cut
from kprobe_sim.records.unread import Unread
from kprobe_sim.tree.files.node import OpenFile, Seek
from kprobe_sim.tree.files.seqfile import Seq

if TYPE_CHECKING:
    from kprobe_sim.text.lines import JoinedLines
    from kprobe_sim.text.render import Renderer

_FEWEST, _MOST = 64, 1024  # lines that are made at once


def _renderer_of(instance: Instance, latency: bool) -> Renderer:
    """Return a renderer of entries; readers share one unless its output depends on where they started."""
    from kprobe_sim.text.render import Renderer

    if instance.current_tracer == "function_graph" and not instance.name and instance.machine.gates.graph_known:
        from kprobe_sim.text.graph import GraphRenderer

        return GraphRenderer(instance, latency)
    if latency:
        return Renderer(instance, latency)
    renderer: Renderer | None = instance.renderer
    if renderer is None:
        renderer = instance.renderer = Renderer(instance, latency)
    return renderer


class _Contents:
    """A buffer's header and entries when it was last read; their lines are made some at a time.

    Lines that nobody has read yet are kept as long as they hold.
    """

    __slots__ = ("_count", "_end", "_entries", "_lines", "_marks", "_next", "_renderer", "head", "length", "state")

    def __init__(
        self, state: object, head: bytes, entries: Unread, marks: Mapping[int, bytes], renderer: Renderer
    ) -> None:
        self.state = state
        self.head = head
        self._entries = entries
        self.length = len(entries)
        self._marks = marks  # the lines before some of the entries', by index
        self._renderer = renderer
        self._lines: JoinedLines | None = None
        self._next = self._end = 0  # the index of the next of these lines, and that after the last
        self._count = _FEWEST  # to be made next

    def lines(self, start: int, enough: int) -> list[bytes]:
        """Return the lines from `start` on until they are `enough` bytes long: one at least, if there is one."""
        lines: list[bytes] = []
        while start + len(lines) < self.length and (enough > 0 or not lines):
            _, empty, line = self._take(start + len(lines), 1)
            lines += [b""] * empty
            if line:
                lines.append(line)
            enough -= len(line)
        return lines

    def page(self, start: int, enough: int, room: int) -> tuple[bytes, int, bytes]:
        """Return the text of the lines from `start` on until they are `enough` bytes long, and how many they are.

        They are shorter than `room`; the last value is a line that was made and doesn't fit.
        """
        text, count = b"", 0
        while start + count < self.length:
            some, number, line = self._take(start + count, enough - len(text))
            text += some
            count += number
            if line:
                if len(text) + len(line) >= room:
                    return text, count, line
                text += line
                count += 1
                if len(text) >= enough:
                    break
        return text, count, b""

    def _take(self, start: int, enough: int) -> tuple[bytes, int, bytes]:
        """Take lines as `JoinedLines.take` does; make them now if there are none."""
        lines = self._lines
        if lines is None or start != self._next or start == self._end:
            lines = self._make(start)
        text, count, last = lines.take(enough)
        self._next = start + count + bool(last)
        return text, count, last

    def _make(self, start: int) -> JoinedLines:
        """Make the lines from `start` on, or only one if later lines may change before they are read."""
        self._renderer.refresh()  # another reader may have used it in between
        lines, is_lasting = self._renderer.lines(self._entries, start, start + self._count)
        if not is_lasting:
            lines = lines.changed(lambda texts: texts[:1])
        marked = range(start, start + self._count)
        if self._marks and any(index in marked for index in self._marks):
            marks = [self._marks.get(index, b"") for index in marked]
            lines = lines.changed(lambda texts: list(map(b"".join, zip(marks, texts, strict=False))))
        self._lines, self._end = lines, start + len(lines)
        self._count = min(2 * self._count, _MOST) if is_lasting else 1
        return lines


class Trace(Seq):
    """`trace`: the whole buffer as text, not consumed; a write is taken and ignored."""

    seek: ClassVar[Seek] = Seek.TRACING

    def __init__(
        self,
        flags: int,
        instance: Instance,
        cpu: int | None,
        put: Callable[[bytes], int | None] = len,
        *,
        write_moves: bool = False,
    ) -> None:
        self._instance = instance
        self._cpu = cpu
        self._latency = instance.options["latency-format"]
        self._known: _Contents | None = None
        self._renderer: Renderer | None = None
        self._held = b""  # the line that last didn't fit into a read; it goes before the next one
        self._is_left = False  # the held line is itself the next one
        self._first = 1  # the next record that is a line
        super().__init__(flags, tuple, put, write_moves=write_moves)
        if self.readable:
            self._open_trace()

    def _open_trace(self) -> None:
        self._instance.open_trace(self._cpu)

    def _close_trace(self) -> None:
        self._instance.close_trace(self._cpu)

    def released(self) -> None:
        if self.readable:
            self._close_trace()

    @property
    def _buffer(self) -> RingBuffer:
        return self._instance.buffer

    def splice(self, size: int, position: int) -> bytes:
        data = b""
        while len(data) < size and (piece := self.read(size - len(data), position + len(data))):
            data += piece
        return data

    def _contents(self) -> _Contents:
        """Return what the buffer holds; it is read again only if something has changed."""
        instance, buffer = self._instance, self._buffer
        state = (instance.render_state, instance.started, buffer, buffer.state)
        known = self._known
        if known is None or known.state != state:
            entries = buffer.unread(self._cpu)
            is_annotated = instance.options.annotates and instance.current_tracer != "function_graph"
            marks = self._marks(buffer, entries) if is_annotated else {}
            renderer = self._renderer
            if renderer is None or instance.current_tracer in renderer.unshown:
                renderer = self._renderer = _renderer_of(instance, self._latency)
            renderer.start = instance.started
            renderer.refresh()
            known = self._known = _Contents(state, self._head(buffer), entries, marks, renderer)
        return known

    def _head(self, buffer: RingBuffer) -> bytes:
        """Return the text before the lines."""
        from kprobe_sim.text.header import header

        return header(self._instance, self._latency, buffer)

    def _marks(self, buffer: RingBuffer, entries: Unread) -> dict[int, bytes]:
        """Return the mark before the first line of each CPU, by the indexes of those lines."""
        marks: dict[int, bytes] = {}
        if any(cpu.overrun for cpu in buffer.cpus.values()):
            started: set[int] = set()
            for index, entry in enumerate(entries):
                if entry.cpu in started:
                    continue
                started.add(entry.cpu)
                if index > 1:
                    marks[index] = b"##### CPU %d buffer started ####\n" % entry.cpu
                if len(started) == self._instance.cpus:
                    break
        return marks

    def _fill(self, size: int) -> bytes:
        """Make a page of lines at a time where the next line is the buffer's next, or the held one."""
        while True:
            known, index, held = self._contents(), self._index, self._held
            start = held if index else known.head
            enough = min(size, self._room)
            if len(start) >= enough or (held and not (index and self._is_left)):
                return super()._fill(size)
            used = len(start)
            text, count, beyond = known.page(index - bool(index) + bool(held), enough - used, self._room - used)
            count += bool(held) or not index
            if start:
                text = start + text
            self._index += count
            if text or not beyond:
                self._held, self._is_left = beyond, bool(beyond)
                if text or not count:
                    return text
            else:
                self._room *= 2

    def _show(self, index: int, enough: int) -> Sequence[bytes]:
        """Return the header and the lines from `index` on, as the kernel makes them: the held line comes first.

        Source: s_start() and s_show() in kernel/trace/trace.c (6.12): going back doesn't empty iter->seq.
        """
        known = self._contents()
        first = self._first = max(index, 1)
        self._is_left = self._is_left and index > 0
        if index and not self._held:
            return known.lines(first - 1, enough)
        shown = [] if index else [known.head]
        used = sum(map(len, shown))
        if self._held and used < enough and (self._is_left or first <= known.length):
            shown.append(self._held if self._is_left else self._held + known.lines(first - 1, 0)[0])
            used = sum(map(len, shown))
            first += 1
        return shown if shown and used >= enough else shown + known.lines(first - 1, enough - used)

    def _made(self, records: Sequence[bytes], *, spilled: bool) -> None:
        if self._index + len(records) - spilled > self._first:
            self._held, self._is_left = b"", False
        if spilled:
            self._held, self._is_left = records[-1], True


def poll_mask(instance: Instance, buffer: RingBuffer, cpu: int | None) -> int:
    """Return the poll(2) mask of a buffer; that of one CPU is ready once buffer_percent of it is filled.

    Source: ring_buffer_poll_wait() in kernel/trace/ring_buffer.c (6.1).
    """
    percent = int(instance.knobs.get("buffer_percent", b"50"))
    is_ready = not buffer.is_empty(cpu) if cpu is None or not percent else buffer.cpus[cpu].is_filled(percent)
    return select.POLLIN | select.POLLRDNORM if is_ready else 0


class TracePipe(OpenFile):
    """`trace_pipe`: it consumes what it shows; has one opener at a time; never blocks here (the adapter waits)."""

    seek: ClassVar[Seek] = Seek.NONE

    def __init__(self, flags: int, instance: Instance, cpu: int | None) -> None:
        super().__init__(flags)
        instance.readers.open_pipe(cpu)
        self._instance = instance
        self._cpu = cpu
        self._latency = instance.options["latency-format"]
        self._left = b""
        self._has_read = False
        self._renderer: Renderer | None = None

    def read(self, size: int, position: int) -> bytes:
        instance = self._instance
        if not size:
            return b""
        while not self._left:  # an entry may have no text
            if instance.buffer.is_empty(self._cpu):
                # only a reader that has read something gets the end, and never with O_NONBLOCK
                if not instance.tracing_on and self._has_read and not self.flags & os.O_NONBLOCK:
                    return b""
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            self._has_read = True
            self._fill(min(size, instance.machine.gates.trace_seq_size - 1))
        taken, self._left = self._left[:size], self._left[size:]
        return taken

    def again(self, size: int, position: int) -> bytes:
        instance = self._instance
        if not self._left and not instance.machine.gates.end_wakes and instance.buffer.is_empty(self._cpu):
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return self.read(size, position)

    def _fill(self, most: int) -> None:
        renderer = self._renderer
        if renderer is None or self._instance.current_tracer in renderer.unshown:
            renderer = self._renderer = _renderer_of(self._instance, self._latency)
            renderer.start = self._instance.started
        renderer.refresh()
        size = self._instance.machine.gates.trace_seq_size
        buffer = self._instance.buffer
        lines: list[bytes] = []
        used = 0
        # never peek beyond what is shown: a peek at the next page skips the padding of this one
        while used < most and (entry := buffer.peek(self._cpu)) is not None:
            line = renderer.line(entry, None, len(lines) + 1)  # an entry is counted before it is shown
            over = used + len(line) - size
            if lines and (isinstance(line, Cut) or over > 0 or (over == 0 and not renderer.ends_in_put(entry.data))):
                break
            if isinstance(line, Cut):
                used = most  # nothing comes after it in this read
            lines.append(line)
            used += len(line)
            buffer.consume(entry)
            if renderer.records > 1 and buffer.peek(entry.cpu) is not None:
                buffer.consume(entry)
        self._left = b"".join(lines)

    def poll(self) -> int:
        return poll_mask(self._instance, self._instance.buffer, self._cpu)

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        return self._instance.machine.subscribe(callback)

    def released(self) -> None:
        self._instance.readers.close_pipe(self._cpu)
