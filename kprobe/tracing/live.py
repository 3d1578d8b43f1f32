"""The records of a tracefs as they arrive, from per_cpu/cpuN/trace_pipe_raw."""

import errno
import os
import re
import time
from _thread import RLock
from typing import TYPE_CHECKING, Final

from kprobe.tracefs.capabilities import Capabilities
from kprobe.tracing.remainder import PAUSE, Remainder
from kprobe_text.pages.clocks import COUNTS
from kprobe_text.pages.events import SPECIAL, Events, Format
from kprobe_text.pages.flags import ALL_LETTERS, Letters
from kprobe_text.pages.header import PageHeader, check_event_header, page_header
from kprobe_text.pages.kallsyms import Kallsyms
from kprobe_text.pages.merging import Holding
from kprobe_text.pages.page import Pages, Stamped
from kprobe_text.pages.tasks import Tasks, tgids
from kprobe_text.text.records import Clock, Record

if TYPE_CHECKING:
    from kprobe.tracefs.tracefs import Handle, Stream, Tracefs

_CPU: Final = re.compile(r"cpu(\d{1,6})")
_AT_ONCE: Final = 1 << 20  # bytes that are read from one CPU before the others have their turn
_SETTLED: Final = 0.03  # seconds after which a CPU's earlier data has arrived, too
_SLICE: Final = 0.05  # seconds to wait for one of several CPUs


class RawPipe:
    """Reads the raw pages of all CPUs of an instance, merged by time; the kernel drops what has been read.

    ``prefix`` is that of the instance, as ``instances/NAME/``, ``events`` are those whose formats are looked up first,
    as GROUP/NAME.  Raises OSError for the files, ValueError if the kernel's description of them isn't understood.
    """

    def __init__(self, tracefs: "Tracefs", prefix: str = "", *, events: tuple[str, ...] = ()) -> None:
        self._tracefs = tracefs
        self._prefix = prefix
        self._header = self._page_header()
        check_event_header(tracefs.read("events/header_event"))
        wanted = (*events, *(f"ftrace/{name}" for name in SPECIAL))
        formats = [found for name in wanted if (found := self._format(name)) is not None]
        kallsyms = Kallsyms(Capabilities(tracefs).kallsyms, long=self._header.long)
        order = "<" if self._header.order == "little" else ">"
        self._events = Events(formats, order, kallsyms.symbol, long=self._header.long, more=self._look_up)
        self._pages = Pages(
            self._header, self._events, kallsyms, tasks=Tasks(), clock=self._clock(),
            letters=self._letters(),
        )  # fmt: skip
        names = [name for name in tracefs.listdir(f"{prefix}per_cpu") if _CPU.fullmatch(name)]
        self._cpus = sorted(int(name[3:]) for name in names)
        self._streams: dict[int, Stream] = {}
        self._lock = RLock()  # no file may be reopened after `close`
        self._is_closed = False
        self._names = _Again(tracefs, "saved_cmdlines")
        self._processes = _Again(tracefs, "saved_tgids")
        self._rests: dict[int, bytes] = dict.fromkeys(self._cpus, b"")
        self._offsets = dict.fromkeys(self._cpus, 0)
        self._holding = Holding(len(self._cpus))
        self._next = 0
        try:
            for cpu in self._cpus:
                self._streams[cpu] = tracefs.stream(self._path(cpu, "trace_pipe_raw"))
        except BaseException:
            self.close()
            raise

    @property
    def problems(self) -> list[str]:
        """Sentences on what isn't understood."""
        return self._events.problems + self._pages.problems

    def read(self, timeout: float | None = None) -> list[Record]:
        """Return the next records, waiting for the first of them; an empty list after `close`.

        Raise `TimeoutError` when `timeout` seconds pass without any (0 means don't wait, None wait for ever).
        """
        end = None if timeout is None else time.monotonic() + timeout
        while self._streams and not self._is_closed:
            came, undrained = self._round()
            if records := self._holding.round(came, undrained):
                return records
            if any(came):
                # another CPU's earlier data may be on its way from a guest
                time.sleep(_SETTLED)
                continue
            left = float("inf") if end is None else end - time.monotonic()
            if left <= 0:
                raise TimeoutError(errno.ETIMEDOUT, "no data", self._path(self._cpus[0], "trace_pipe_raw"))
            self._wait(min(0.2 if len(self._cpus) == 1 else _SLICE, left))
        return []

    def drain(self) -> list[Record]:
        """Return all that the kernel holds now, perhaps with what others record meanwhile."""
        remainder = Remainder(self._tracefs, f"{self._prefix}per_cpu", time.monotonic)
        found: list[Record] = []
        is_last = False
        while self._streams and not (is_last or self._is_closed):
            # before the round, which takes more of each CPU than can be on its way from a guest
            is_last = remainder.is_over()
            came, undrained = self._round()
            found += self._holding.round(came, undrained)
            if not any(came) and not is_last:
                is_last = not remainder.is_counted
                time.sleep(PAUSE)
        return found + self._holding.remaining()

    def close(self) -> None:
        """Close the files, from any thread; a read that waits returns an empty list."""
        self._is_closed = True
        with self._lock:
            for cpu, stream in list(self._streams.items()):
                stream.close()
                del self._streams[cpu]  # last: after an interrupt this runs again
            self._names.close()
            self._processes.close()

    def _round(self) -> tuple[list[list[Stamped]], list[int]]:
        """Read every CPU; return the records of each, and the last times of those that may have more."""
        came, undrained = [], []
        for cpu in self._cpus:
            pages, last = self._take(cpu)
            came.append(pages)
            if last is not None:
                undrained.append(last)
        return came, undrained

    def _take(self, cpu: int) -> tuple[list[Stamped], int | None]:
        """Read a CPU; return its records and, if it may have more, the time of the last one."""
        stream = self._streams.get(cpu)
        pieces, length, is_drained = [self._rests[cpu]], 0, False
        while stream is not None and length < _AT_ONCE and not is_drained:
            try:
                pieces.append(stream.read(0))
            except TimeoutError:
                is_drained = True
            else:
                length += len(pieces[-1])
                if is_drained := not pieces[-1]:
                    self._reopen(cpu)
        data = b"".join(pieces)
        size = self._header.size
        whole = len(data) - len(data) % size
        self._rests[cpu] = data[whole:]
        if not whole:
            return [], None
        self._look_at_tasks()
        found: list[Stamped] = []
        for at in range(0, whole, size):
            found += self._pages.read(data[at : at + size], cpu, offset=self._offsets[cpu] + at)
        self._offsets[cpu] += whole
        return found, None if is_drained or not found else found[-1][0]

    def _wait(self, seconds: float) -> None:
        """Wait for one CPU, another each time."""
        cpu = self._cpus[self._next % len(self._cpus)]
        self._next += 1
        stream = self._streams.get(cpu)
        if stream is None:
            return
        try:
            piece = stream.read(seconds)
        except TimeoutError:
            return
        self._rests[cpu] += piece
        if not piece:
            self._reopen(cpu)

    def _reopen(self, cpu: int) -> None:
        """Reopen a stream that ended: a read that meets a writer returns nothing, once (tracing_buffers_read)."""
        with self._lock:
            if (stream := self._streams.get(cpu)) and not self._is_closed:
                stream.close()
                self._streams[cpu] = self._tracefs.stream(self._path(cpu, "trace_pipe_raw"))

    def _look_at_tasks(self) -> None:
        # the kernel too names a task only when its text is read
        self._pages.tasks.read(self._names.read())
        self._pages.tgids = tgids(self._processes.read())

    def _path(self, cpu: int, name: str) -> str:
        return f"{self._prefix}per_cpu/cpu{cpu}/{name}"

    def _text(self, path: str) -> bytes:
        try:
            return self._tracefs.read(path)
        except OSError:
            return b""

    def _page_header(self) -> PageHeader:
        header = page_header(self._tracefs.read("events/header_page"))
        # since 6.8 each instance has its own page size, and that file describes the top level's
        size = self._text(f"{self._prefix}buffer_subbuf_size_kb").strip()
        return header.of_size(int(size) * 1024) if size.isdigit() and int(size) else header

    def _clock(self) -> Clock:
        chosen = re.search(rb"\[([^\[\]]+)\]", self._text(f"{self._prefix}trace_clock"))
        return "count" if chosen is not None and chosen[1].decode(errors="replace") in COUNTS else "time"

    def _letters(self) -> Letters:
        """Find the flags that the kernel prints by the header of its text; at the top level that has everybody's trace.

        Kernels without instances, before 3.10, have at most the four letters.

        On x86-64, which knows the state of interrupts, the second bit has never meant that it is unknown.
        """
        if not self._prefix:
            return ALL_LETTERS if self._tracefs.exists("instances") else Letters(False, False)
        header = self._text(f"{self._prefix}trace")
        return Letters(b"migrate-disable" in header, b"BH-disabled" in header)

    def _format(self, event: str) -> Format | None:
        text = self._text(f"events/{event}/format")
        return (event.partition("/")[0], text) if text else None

    def _look_up(self, number: int) -> Format | None:
        """Return the format of an event that somebody else has enabled."""
        wanted = str(number).encode()
        for group in self._tracefs.listdir("events"):
            try:
                names = self._tracefs.listdir(f"events/{group}")
            except OSError:
                continue  # a file
            for name in names:
                if self._text(f"events/{group}/{name}/id").strip() == wanted:
                    return self._format(f"{group}/{name}")
        return None


class _Again:
    """A file that is read repeatedly through one open(2): a probe on opens would see each further one."""

    def __init__(self, tracefs: "Tracefs", path: str) -> None:
        self._tracefs, self._path = tracefs, path
        self._handle: Handle | None = None
        try:
            # not every tracefs has it
            self._handle = tracefs.open(path, os.O_RDONLY) if hasattr(tracefs, "open") else None
            self._is_there = self._handle is not None or tracefs.exists(path)
        except OSError:
            self._is_there = False

    def read(self) -> bytes:
        """Return the whole file; b"" if there is none."""
        if not self._is_there:
            return b""
        try:
            if self._handle is None:
                return self._tracefs.read(self._path)
            self._handle.lseek(0)
            parts = []
            while part := self._handle.read(1 << 16):
                parts.append(part)
        except OSError:
            return b""
        return b"".join(parts)

    def close(self) -> None:
        """Close the file."""
        self._is_there = False
        if self._handle is not None:
            self._handle.close()
