"""Entries of the ring buffer as the text of `trace` and `trace_pipe` (trace_output.c, print_trace_line in trace.c)."""

from __future__ import annotations

import errno
import struct
from bisect import bisect_left
from collections.abc import Sequence
from functools import cache, partial
from operator import itemgetter

from kprobe_sim.builds.gates import Gates
from kprobe_sim.events.instance import Instance
from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.machine.clock import ns2usecs
from kprobe_sim.machine.symbol_text import TextCache
from kprobe_sim.probes.probe_event import ProbeEvent
from kprobe_sim.records.columns import Part, Rows, column, lengths_of, merged, text_of
from kprobe_sim.records.entry_type import TRACE_PRINT
from kprobe_sim.records.ring import RingEntry
from kprobe_sim.records.trace_seq import Put, cut
from kprobe_sim.records.unread import Unread
from kprobe_sim.text.bodies import Bodies, print_text, raw_data
from kprobe_sim.text.lines import JoinedLines

FLAG_IRQS_OFF = 0x01
FLAG_IRQS_NOSUPPORT = 0x02
FLAG_LAZY_RESCHED = 0x02  # the same bit, since 6.14
FLAG_NEED_RESCHED = 0x04
FLAG_HARDIRQ = 0x08
FLAG_SOFTIRQ = 0x10
FLAG_PREEMPT_RESCHED = 0x20
FLAG_NMI = 0x40
FLAG_BH_OFF = 0x80

_HEADER = struct.Struct("<HBBi")
_HEAD = itemgetter(slice(_HEADER.size))
_CONTEXTS = 4096  # of each CPU that are kept
_FEW = 6  # up to this many lines are made faster one by one
_STACKS = (b"<stack trace>\n", b"<user stack trace>\n")
DELAYS = ((10**9, b"$"), (10**8, b"@"), (10**7, b"*"), (10**6, b"#"), (10**5, b"!"), (10**4, b"+"))
_SHORT_MARKS = ((10**5, b"!"), (10**3, b"+"))


_RESCHED = {FLAG_NEED_RESCHED | FLAG_PREEMPT_RESCHED: "N", FLAG_NEED_RESCHED: "n", FLAG_PREEMPT_RESCHED: "p"}
_LAZY_RESCHED = {
    **_RESCHED,
    FLAG_NEED_RESCHED | FLAG_PREEMPT_RESCHED | FLAG_LAZY_RESCHED: "B",
    FLAG_LAZY_RESCHED | FLAG_PREEMPT_RESCHED: "L",
    FLAG_NEED_RESCHED | FLAG_LAZY_RESCHED: "b",
    FLAG_LAZY_RESCHED: "l",
}


MICROS = len("123456: ")

_SECOND, _MILLI, _HALF = 10**9, 10**6, 500  # ns; the last is half a microsecond
_MICROS_OF_SECOND = 10**6
_DENSE = 10**5  # ns: records this close together share their milliseconds


@cache
def _thousandths(shown: bytes) -> Sequence[bytes]:
    """Return the numbers from 0 to 999 in a format."""
    return tuple(shown % number for number in range(1000))


def times_of(stamps: Sequence[int], *, in_order: bool) -> Sequence[Part]:
    """Return timestamps in parts: the seconds, and the microseconds, which are `MICROS` bytes long.

    `in_order`: they never decrease.
    """
    first, last = (stamps[0], stamps[-1]) if in_order else (min(stamps), max(stamps))
    second = (first + _HALF) // _SECOND
    start = second * _SECOND - _HALF  # stamps from here on round up to it
    upper, lower = _thousandths(b"%03d"), _thousandths(b"%03d: ")
    if in_order and last < start + _SECOND and last - first < len(stamps) * _DENSE:
        return b" %5d." % second, *_by_milliseconds(stamps, start, upper, lower)
    micros = [(stamp - start) // 1000 for stamp in stamps]
    seconds: Part = b" %5d." % second
    if last >= start + _SECOND:
        seconds = column([micro // _MICROS_OF_SECOND for micro in micros], lambda more: b" %5d." % (second + more))
        micros = [micro % _MICROS_OF_SECOND for micro in micros]
    return seconds, [upper[micro // 1000] for micro in micros], [lower[micro % 1000] for micro in micros]


def _by_milliseconds(
    stamps: Sequence[int], start: int, upper: Sequence[bytes], lower: Sequence[bytes]
) -> tuple[Part, Part]:
    millis: list[bytes] = []
    micros: list[bytes] = []
    while len(micros) < len(stamps):
        milli = (stamps[len(micros)] - start) // _MILLI
        since = start + milli * _MILLI
        some = stamps[len(micros) : bisect_left(stamps, since + _MILLI, len(micros))]
        millis += [upper[milli]] * len(some)
        micros += [lower[(stamp - since) // 1000] for stamp in some]
    return millis, micros


def flag_letters(flags: int, preempt_count: int, gates: Gates) -> bytes:
    """Return the letters of the irq-info column (trace_print_lat_fmt)."""
    lazy = gates.lazy_resched
    bh_off = gates.bh_letters and flags & FLAG_BH_OFF
    if flags & FLAG_IRQS_OFF:
        irqs = "D" if bh_off else "d"
    elif bh_off:
        irqs = "b"
    else:
        irqs = "X" if flags & FLAG_IRQS_NOSUPPORT and not lazy else "."
    needs = flags & (FLAG_NEED_RESCHED | FLAG_PREEMPT_RESCHED | (FLAG_LAZY_RESCHED if lazy else 0))
    if not gates.preempt_resched:
        needs = needs & FLAG_NEED_RESCHED and FLAG_NEED_RESCHED | FLAG_PREEMPT_RESCHED
    resched = (_LAZY_RESCHED if lazy else _RESCHED).get(needs, ".")
    if flags & FLAG_NMI:
        context = "Z" if flags & FLAG_HARDIRQ else "z"
    elif flags & FLAG_HARDIRQ:
        context = "H" if flags & FLAG_SOFTIRQ else "h"
    else:
        context = "s" if flags & FLAG_SOFTIRQ else "."
    depth = f"{preempt_count & 0xF:x}" if preempt_count & 0xF else "."
    if gates.context_letters == 4:  # all of the preempt count
        return (irqs + resched + context + (f"{preempt_count:x}" if preempt_count else ".")).encode()
    migrate = f"{preempt_count >> 4:x}" if preempt_count & 0xF0 else "."
    return (irqs + resched + context + depth + migrate).encode()


def lost_text(cpu: int, count: int) -> bytes:
    """Return the line before an entry that says how many others of its CPU were lost."""
    return b"CPU:%d [LOST %d EVENTS]\n" % (cpu, count)


def _nothing(_cpu: int, _head: bytes) -> bytes:
    return b""


class Renderer:
    """Renders entries with the options that its instance had at the last `refresh`.

    `latency`: in the format of the option latency-format.  `start` is the time when the buffer was last reset
    (array_buffer->time_start).
    """

    records = 1  # entries of its CPU that a consuming reader's last line has shown
    unshown = frozenset({"function_graph", "mmiotrace"})  # tracers whose format it can't show

    def __init__(self, instance: Instance, latency: bool, start: int = 0) -> None:
        self._instance = instance
        self._latency = latency
        self.start = start
        self._flags: dict[int, bytes] = {}
        gates = instance.machine.gates
        self._size = gates.trace_seq_size - gates.last_byte_unused
        self._task = b"-%%-%dd " % gates.pid_width  # what follows a task's name
        self._named_task = b"%%16s %%%dd %%3d %%d %%08x %%08x " % gates.pid_width
        self._marks = DELAYS if gates.long_delays else _SHORT_MARKS
        self._before_time = b"" if gates.header == "bare" else b" "
        self._raw_kind = instance.machine.gates.raw_data_type.to_bytes(2, "little")
        self._bodies = Bodies(instance)
        self._state: tuple[object, ...] = ()
        self._context_state: tuple[object, ...] = ()
        self.refresh()

    def refresh(self) -> None:
        """Read the options, names, events and symbols again if any of them has changed."""
        instance = self._instance
        state = instance.render_state
        if state == self._state:
            return
        if instance.current_tracer in self.unshown:
            raise refuse(errno.ENOSYS)  # no kernel answers this: it says that the format isn't simulated
        self._state = state
        self._bodies.refresh()
        options = instance.options
        context_state = (options.version, instance.cmdlines.version, instance.clock.name)
        if context_state == self._context_state:
            return
        self._context_state = context_state
        special = ("bin", "hex", "raw", "printk-msg-only")
        self._in_ns = instance.clock.in_ns
        is_special = self._latency or any(options[name] for name in special)
        self._is_plain = self._in_ns and options["context-info"] and not is_special
        make = self._context if options["context-info"] else _nothing
        self._contexts: TextCache[int, TextCache[bytes, bytes]] = TextCache(
            lambda cpu: TextCache(partial(make, cpu), _CONTEXTS)
        )

    def lines(self, entries: Unread, start: int, end: int) -> tuple[JoinedLines, bool]:
        """Return the texts of entries, and whether they hold until `refresh` finds a change.

        `entries` are all entries of a buffer that nobody consumes, in order of time.
        """
        self._bodies.is_lasting = True
        end = min(end, len(entries))
        lines = self._plain(entries, start, end) if self._is_plain and end - start > _FEW else None
        if lines is None:  # one by one, since one may not fit
            some = entries[start : end + 1]
            lines = JoinedLines.of(list(map(self.line, some[: end - start], [*some[1:], None], range(start, end))))
        return lines, self._bodies.is_lasting

    def _plain(self, entries: Unread, start: int, end: int) -> JoinedLines | None:
        """Return entries in the usual format; None if one may be too long, or wrong: see `Shown`."""
        stamps, cpus, data = entries.columns(start, end)
        count = len(data)
        rows = self._bodies.rows(data)
        heads = list(map(_HEAD, rows.rows))
        if heads.count(heads[0]) == len(heads):
            del heads[1:]
        context = self._context_part(rows, heads, cpus)
        seconds, *micros = times_of(stamps, in_order=entries.in_order)
        body = self._bodies.parts(rows, heads)
        lengths = list(lengths_of((context, seconds, *body), count, MICROS))
        if max(lengths) >= self._size:
            return None
        text = text_of(merged((context, seconds, *micros, *body)), count)
        return None if b"\0" in text else JoinedLines(text, lengths)

    def _context_part(self, rows: Rows, heads: Sequence[bytes], cpus: Sequence[int]) -> Part:
        """Return the part before the times; `heads` are those of the rows, or a single one if all are equal."""
        contexts = self._contexts
        if cpus.count(cpus[0]) == len(cpus):
            part = column(heads, contexts[cpus[0]].__getitem__)
            return part if isinstance(part, bytes) else rows.spread(part)
        if len(heads) == 1:
            return column(cpus, lambda cpu: contexts[cpu][heads[0]])
        return [contexts[cpu][head] for cpu, head in zip(cpus, rows.spread(heads), strict=True)]

    def line(self, entry: RingEntry, following: RingEntry | None, index: int) -> bytes:
        """Return one entry's text; `following` is the next entry in order of time, `index` counts from 0."""
        options = self._instance.options
        data = entry.data
        lost = lost_text(entry.cpu, entry.lost) if entry.lost else b""
        kind, _, _, pid = _HEADER.unpack_from(data)
        if kind == TRACE_PRINT and options["trace_printk"] and options["printk-msg-only"]:
            return lost + print_text(data)
        if options["bin"] or options["hex"] or options["raw"]:
            return lost + self._unformatted(entry, kind, pid)
        context = b""
        if options["context-info"]:
            if self._latency:
                context = self._latency_context(entry, following, index)
            else:
                context = self._contexts[entry.cpu][data[:8]] + self._time(entry.stamp)
        body = self._bodies.body(data)
        text = lost + context + body
        return self._cut(text, data, body) if len(text) >= self._size else text

    def _cut(self, text: bytes, data: bytes, body: bytes) -> bytes:
        """Return as much of a text that ends in `body` as fits."""
        return cut([text[: len(text) - len(body)], *self._pieces(data, body)], self._size)

    def ends_in_put(self, data: bytes) -> bool:
        """Return True if an entry's newline may be the last byte of the kernel's buffer: `trace_seq.Put`."""
        options = self._instance.options
        if options["raw"] or options["bin"] or options["hex"]:
            return options["hex"]
        kind = int.from_bytes(data[:2], "little")
        if self._bodies.is_builtin(kind):
            return kind != TRACE_PRINT and not options["fields"]
        return options["fields"] or self._instance.tracing.events.dynamic(kind) is not None

    def _pieces(self, data: bytes, body: bytes) -> list[bytes]:
        """Return a body in the pieces that the kernel writes."""
        kind = int.from_bytes(data[:2], "little")
        event = self._instance.tracing.events.dynamic(kind)
        if self._instance.options["fields"]:
            return [body]
        if isinstance(event, ProbeEvent):
            return event.pieces(self._bodies.symbol)(data)
        if data[:2] == self._raw_kind:
            start = body.index(b" buf:") + len(b" buf:")
            return [body[:start], *(body[at : at + 3] for at in range(start, len(body) - 1, 3)), Put(b"\n")]
        if body.startswith(_STACKS):
            first, *frames = body.splitlines()
            return [
                Put(first + b"\n"),
                *(piece for frame in frames for piece in (Put(frame[:4]), frame[4:], Put(b"\n"))),
            ]
        name, colon, text = body.partition(b": ")
        return [name, colon + text] if kind == TRACE_PRINT else [name + colon, text]

    def _letters(self, flags: int, preempt_count: int) -> bytes:
        letters = self._flags.get(flags << 8 | preempt_count)
        if letters is None:
            letters = self._flags[flags << 8 | preempt_count] = flag_letters(
                flags, preempt_count, self._instance.machine.gates
            )
        return letters

    def _time(self, stamp: int) -> bytes:
        if self._in_ns:
            return b" %5d.%06d: " % divmod(ns2usecs(stamp), 1_000_000)
        return b" %12d: " % stamp

    def _context(self, cpu: int, head: bytes) -> bytes:
        """Return the columns before the time for the first bytes of a record, up to the pid."""
        _, flags, preempt_count, pid = _HEADER.unpack(head)
        options, cmdlines = self._instance.options, self._instance.cmdlines
        text: bytes = b"%16s" % cmdlines.find(pid) + self._task % pid
        columns = b"[%03d]" % cpu
        if options["record-tgid"]:
            tgid = cmdlines.tgid(pid)
            gates = self._instance.machine.gates
            shown = b"(%*d)" % (gates.pid_width, tgid) if tgid else b"(" + b"-" * gates.pid_width + b")"
            columns = shown + b" " + columns
        text += columns + self._before_time
        return text + self._letters(flags, preempt_count) if options["irq-info"] else text

    def _latency_context(self, entry: RingEntry, following: RingEntry | None, index: int) -> bytes:
        _, flags, preempt_count, pid = _HEADER.unpack_from(entry.data)
        instance = self._instance
        in_ns = instance.clock.in_ns
        comm = instance.cmdlines.find(pid)
        absolute = entry.stamp - self.start
        relative = (entry.stamp if following is None else following.stamp) - entry.stamp
        if in_ns:
            absolute, relative = ns2usecs(absolute), ns2usecs(relative)
        if instance.options["verbose"]:
            text: bytes = self._named_task % (comm, pid, entry.cpu, flags, preempt_count & 0xF, index)
            if in_ns:
                return text + b"[%08x] %d.%03dms (+%d.%03dms): " % (
                    ns2usecs(entry.stamp),
                    *divmod(absolute, 1000),
                    *divmod(relative, 1000),
                )
            return text + b"[%016x] %d (+%d): " % (entry.stamp, absolute, relative)
        text = b"%8.8s" % comm + self._task % pid + b"%3d" % entry.cpu + self._letters(flags, preempt_count)
        if not in_ns:
            return text + b" %4d: " % absolute
        mark = next((mark for limit, mark in self._marks if relative * 1000 > limit), b" ")
        return text + b" %4dus%s: " % (absolute, mark)

    def _unformatted(self, entry: RingEntry, kind: int, pid: int) -> bytes:
        options = self._instance.options
        with_context = options["context-info"]
        events = self._instance.tracing.events
        known = self._bodies.is_builtin(kind) or events.by_id(kind) is not None
        if options["bin"]:
            context = struct.pack("<iiQ", pid, entry.cpu, entry.stamp) if with_context else b""
            return context + (b"type: %d\n" % kind if known else b"")
        if options["hex"]:
            context = b"%08x %08x %016x " % (pid & 0xFFFFFFFF, entry.cpu, entry.stamp) if with_context else b""
            return context + (b"type: %d\n" % kind if known else b"") + b"\n"
        context = b"%d %d %d " % (pid, entry.cpu, entry.stamp) if with_context else b""
        if kind == TRACE_PRINT:
            (ip,) = struct.unpack_from("<Q", entry.data, 8)
            return context + b"# %x %s" % (ip, print_text(entry.data))
        if kind == self._instance.machine.gates.raw_data_type:
            return context + raw_data(entry.data)
        return context + (b"type: %d\n" % kind if known else b"%d ?\n" % kind)
