"""Entries of the ring buffer as the text of `trace` and `trace_pipe` (trace_output.c, print_trace_line in trace.c)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from kprobe_sim.ring import Entry

if TYPE_CHECKING:
    from kprobe_sim.instance import Instance

# ids of the built-in entries (events/ftrace/*/id)
TRACE_STACK = 4
TRACE_PRINT = 5
TRACE_USER_STACK = 12
TRACE_RAW_DATA = 16

FLAG_IRQS_OFF = 0x01
FLAG_IRQS_NOSUPPORT = 0x02
FLAG_NEED_RESCHED = 0x04
FLAG_HARDIRQ = 0x08
FLAG_SOFTIRQ = 0x10
FLAG_PREEMPT_RESCHED = 0x20
FLAG_NMI = 0x40
FLAG_BH_OFF = 0x80

_HEADER = struct.Struct("<HBBi")
_ULONG_MAX = 2**64 - 1
_ULONG = struct.Struct("<Q")
_ULONGS = struct.Struct("<QQ")
_MARKS = ((10**9, b"$"), (10**8, b"@"), (10**7, b"*"), (10**6, b"#"), (10**5, b"!"), (10**4, b"+"))


def ns2usecs(ns: int) -> int:
    """Round nanoseconds to microseconds as the kernel does (trace.c ns2usecs)."""
    return (ns + 500) // 1000


def flag_letters(flags: int, preempt_count: int) -> bytes:
    """Return the five letters of the irq-info column (trace_print_lat_fmt)."""
    if flags & FLAG_IRQS_OFF:
        irqs = "D" if flags & FLAG_BH_OFF else "d"
    elif flags & FLAG_BH_OFF:
        irqs = "b"
    else:
        irqs = "X" if flags & FLAG_IRQS_NOSUPPORT else "."
    resched = {FLAG_NEED_RESCHED | FLAG_PREEMPT_RESCHED: "N", FLAG_NEED_RESCHED: "n", FLAG_PREEMPT_RESCHED: "p"}.get(
        flags & (FLAG_NEED_RESCHED | FLAG_PREEMPT_RESCHED), "."
    )
    if flags & FLAG_NMI:
        context = "Z" if flags & FLAG_HARDIRQ else "z"
    elif flags & FLAG_HARDIRQ:
        context = "H" if flags & FLAG_SOFTIRQ else "h"
    else:
        context = "s" if flags & FLAG_SOFTIRQ else "."
    depth = f"{preempt_count & 0xF:x}" if preempt_count & 0xF else "."
    migrate = f"{preempt_count >> 4:x}" if preempt_count & 0xF0 else "."
    return (irqs + resched + context + depth + migrate).encode()


class Renderer:
    """Renders entries with the options that its instance has when each line is printed."""

    def __init__(self, instance: Instance, latency: bool, start: int = 0) -> None:
        self._instance = instance
        self._latency = latency
        self._start = start  # array_buffer->time_start: when the buffer was last reset
        self._flags: dict[int, bytes] = {}
        self._builtin: dict[int, Callable[[bytes, bool], bytes]] = {
            TRACE_STACK: self._stack,
            TRACE_USER_STACK: self._user_stack,
            TRACE_PRINT: self._print,
            TRACE_RAW_DATA: self._raw_data,
        }

    def line(self, entry: Entry, following: Entry | None, index: int) -> bytes:
        """Return one entry's text; `following` is the next entry in order of time, `index` counts from 0."""
        options = self._instance.options
        lost = b"CPU:%d [LOST %d EVENTS]\n" % (entry.cpu, entry.lost) if entry.lost else b""
        kind, flags, preempt_count, pid = _HEADER.unpack_from(entry.data)
        if kind == TRACE_PRINT and options["trace_printk"] and options["printk-msg-only"]:
            return lost + self._print_text(entry.data)
        if options["bin"] or options["hex"] or options["raw"]:
            return lost + self._unformatted(entry, kind, pid)
        context = b""
        if options["context-info"]:
            letters = self._flags.get(flags << 8 | preempt_count)
            if letters is None:
                letters = self._flags[flags << 8 | preempt_count] = flag_letters(flags, preempt_count)
            if self._latency:
                context = self._latency_context(entry, following, index, flags, preempt_count, pid, letters)
            else:
                context = self._context(entry, pid, letters)
        return lost + context + self._body(entry.data, kind)

    def _context(self, entry: Entry, pid: int, letters: bytes) -> bytes:
        instance = self._instance
        options = instance.options
        cmdlines = instance.cmdlines
        text = b"%16s-%-7d " % (cmdlines.find(pid), pid)
        if options["record-tgid"]:
            tgid = cmdlines.tgid(pid)
            text += b"(%7d) " % tgid if tgid else b"(-------) "
        text += b"[%03d] " % entry.cpu
        if options["irq-info"]:
            text += letters
        if instance.clock.in_ns:
            seconds, micros = divmod(ns2usecs(entry.stamp), 1_000_000)
            return text + b" %5d.%06d: " % (seconds, micros)
        return text + b" %12d: " % entry.stamp

    def _latency_context(
        self,
        entry: Entry,
        following: Entry | None,
        index: int,
        flags: int,
        preempt_count: int,
        pid: int,
        letters: bytes,
    ) -> bytes:
        instance = self._instance
        in_ns = instance.clock.in_ns
        comm = instance.cmdlines.find(pid)
        absolute = entry.stamp - self._start
        relative = (entry.stamp if following is None else following.stamp) - entry.stamp
        if in_ns:
            absolute, relative = ns2usecs(absolute), ns2usecs(relative)
        if instance.options["verbose"]:
            text = b"%16s %7d %3d %d %08x %08x " % (comm, pid, entry.cpu, flags, preempt_count & 0xF, index)
            if in_ns:
                return text + b"[%08x] %d.%03dms (+%d.%03dms): " % (
                    ns2usecs(entry.stamp),
                    *divmod(absolute, 1000),
                    *divmod(relative, 1000),
                )
            return text + b"[%016x] %d (+%d): " % (entry.stamp, absolute, relative)
        text = b"%8.8s-%-7d %3d" % (comm, pid, entry.cpu) + letters
        if not in_ns:
            return text + b" %4d: " % absolute
        mark = next((mark for limit, mark in _MARKS if relative * 1000 > limit), b" ")
        return text + b" %4dus%s: " % (absolute, mark)

    def _unformatted(self, entry: Entry, kind: int, pid: int) -> bytes:
        options = self._instance.options
        with_context = options["context-info"]
        known = kind in self._builtin or self._instance.kernel.event_by_id(kind) is not None
        if options["bin"]:
            context = struct.pack("<iiQ", pid, entry.cpu, entry.stamp) if with_context else b""
            return context + (b"type: %d\n" % kind if known else b"")
        if options["hex"]:
            context = b"%08x %08x %016x " % (pid & 0xFFFFFFFF, entry.cpu, entry.stamp) if with_context else b""
            return context + (b"type: %d\n" % kind if known else b"") + b"\n"
        context = b"%d %d %d " % (pid, entry.cpu, entry.stamp) if with_context else b""
        if kind == TRACE_PRINT:
            (ip,) = struct.unpack_from("<Q", entry.data, 8)
            return context + b"# %x %s" % (ip, self._print_text(entry.data))
        if kind == TRACE_RAW_DATA:
            return context + self._raw_data(entry.data, False)
        return context + (b"type: %d\n" % kind if known else b"%d ?\n" % kind)

    def _body(self, data: bytes, kind: int) -> bytes:
        options = self._instance.options
        builtin = self._builtin.get(kind)
        if builtin is not None:
            return builtin(data, options["sym-offset"])
        event = self._instance.kernel.event_by_id(kind)
        if event is None:
            return b"Unknown type %d\n" % kind
        if event.is_return:
            func, return_ip = _ULONGS.unpack_from(data, 8)
            place = self.symbol(return_ip, True) + b" <- " + self.symbol(func, False)
        else:
            place = self.symbol(_ULONG.unpack_from(data, 8)[0], True)
        return event.label + b": (" + place + b")" + event.args_text(data) + b"\n"

    def symbol(self, address: int, offset: bool) -> bytes:
        """Return an address as seq_print_ip_sym does, with the options sym-offset and sym-addr."""
        if not address:
            return b"0"
        text = self._instance.kernel.symbol_text(address, offset)
        if self._instance.options["sym-addr"]:
            text += b" <%016x>" % address
        return text

    def _stack(self, data: bytes, offset: bool) -> bytes:
        text = b"<stack trace>\n"
        for (address,) in struct.iter_unpack("<Q", data[16 : len(data) & ~7]):
            if address == _ULONG_MAX:
                break
            text += b" => " + self.symbol(address, offset) + b"\n"
        return text

    def _user_stack(self, data: bytes, offset: bool) -> bytes:
        text = b"<user stack trace>\n"
        for (address,) in struct.iter_unpack("<Q", data[16:80]):
            if not address or address == _ULONG_MAX:
                break
            text += b" =>  <%016x>\n" % address
        return text

    def _print_text(self, data: bytes) -> bytes:
        return data[16:].split(b"\0", 1)[0]

    def _print(self, data: bytes, offset: bool) -> bytes:
        (ip,) = struct.unpack_from("<Q", data, 8)
        return self.symbol(ip, offset) + b": " + self._print_text(data)

    def _raw_data(self, data: bytes, offset: bool) -> bytes:
        (number,) = struct.unpack_from("<I", data, 8)
        return b"# %x buf:" % number + b"".join(b" %02x" % byte for byte in data[12:]) + b"\n"
