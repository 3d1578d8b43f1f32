"""A trace.dat (version 6) of what a played scenario left in its buffer, for readers that take no text."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable

from kprobe_sim.kernel.simulated import SimulatedKernel

_PAGE = 4096
_OWN = ("print", "kernel_stack", "user_stack", "raw_data", "function")  # of ftrace: what events don't define
_TICKS = ("counter", "x86-tsc", "uptime")  # clocks that don't count nanoseconds


def trace_dat(kernel: SimulatedKernel, prefix: str, events: Iterable[str], clock: str, text: bytes) -> bytes:
    """Return the file that trace-cmd would make of an instance's pages, which are consumed; see trace-cmd.dat(5).

    `events` are GROUP/NAME.  Of the symbols it has those that the trace's text names, as all are megabytes.  Empty for
    a clock that doesn't count nanoseconds, and for a kernel that doesn't describe its pages.
    """
    tracefs = kernel.tracefs
    if clock in _TICKS or not tracefs.exists("events/header_page"):
        return b""
    out = b"\x17\x08\x44tracing6\0" + bytes([0, 8]) + struct.pack("<I", _PAGE)
    for name in ("header_page", "header_event"):
        out += name.encode() + b"\0" + _sized("<Q", tracefs.read(f"events/{name}"))
    out += _formats(kernel, [f"ftrace/{name}" for name in _OWN])
    groups: dict[str, list[str]] = {}
    for event in events:
        groups.setdefault(event.partition("/")[0], []).append(event)
    out += struct.pack("<I", len(groups))
    for group, names in groups.items():
        out += group.encode() + b"\0" + _formats(kernel, names)
    out += _sized("<I", _symbols(kernel, text)) + _sized("<I", b"") + _sized("<Q", tracefs.read("saved_cmdlines"))
    out += struct.pack("<I", kernel.cpus) + b"options  \0" + struct.pack("<H", 0) + b"flyrecord\0"
    pages = [_pages(kernel, f"{prefix}per_cpu/cpu{cpu}/trace_pipe_raw") for cpu in range(kernel.cpus)]
    place = -(-(len(out) + 16 * len(pages)) // _PAGE) * _PAGE
    filled = b"".join(pages)
    start = place
    for data in pages:
        out += struct.pack("<QQ", start, len(data))
        start += len(data)
    return out.ljust(place, b"\0") + filled


def _sized(form: str, data: bytes) -> bytes:
    return struct.pack(form, len(data)) + data


def _symbols(kernel: SimulatedKernel, text: bytes) -> bytes:
    names = {word.decode() for word in re.findall(rb"[A-Za-z_][\w.]*", text)}
    named = [one for name in names for one in kernel.symbols.lookup(name)]
    after = [one for it in named if (one := kernel.symbols.at(it.address + it.size)) is not None]  # tells a size
    found = sorted({(one.address, one.type, one.name) for one in (*named, *after)})
    return "".join(f"{address:016x} {letter} {name}\n" for address, letter, name in found).encode()


def _formats(kernel: SimulatedKernel, events: Iterable[str]) -> bytes:
    paths = [path for event in events if kernel.tracefs.exists(path := f"events/{event}/format")]
    return struct.pack("<I", len(paths)) + b"".join(_sized("<Q", kernel.tracefs.read(path)) for path in paths)


def _pages(kernel: SimulatedKernel, path: str) -> bytes:
    pages = b""
    with kernel.tracefs.open(path, os.O_RDONLY | os.O_NONBLOCK) as raw:
        try:
            while page := raw.read(_PAGE):
                pages += page
        except BlockingIOError:
            pass
    return pages
