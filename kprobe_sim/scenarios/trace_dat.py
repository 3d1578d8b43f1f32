"""A trace.dat (version 6) of a kernel's buffer, for parsers that read no text: trace-cmd.dat.v6(5)."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Sequence

from kprobe_sim.kernel.simulated import SimulatedKernel
from kprobe_sim.records.ring import RingEntry

_PAGE = 4096
_FTRACE = ("print", "kernel_stack", "user_stack", "raw_data", "function")  # entries of ftrace, without an event
_TICKS = ("counter", "x86-tsc", "uptime")  # clocks that don't count nanoseconds
_UNAME = 5  # the number of an option
_LOWEST = 0xFFFF_FFFF_8000_0000  # where the kernel's image begins; its modules follow


def trace_dat(
    kernel: SimulatedKernel, prefix: str, events: Iterable[str], clock: str, entries: Iterable[RingEntry]
) -> bytes:
    """Return the file that trace-cmd would make of an instance's pages, which are consumed.

    `events` are GROUP/NAME, `entries` the contents of the pages: the file has only the symbols of addresses in them,
    since all symbols take megabytes.  Empty for a clock that doesn't count nanoseconds, and for a kernel that doesn't
    describe its pages.
    """
    if clock in _TICKS or not kernel.tracefs.exists("events/header_page"):
        return b""
    known = list(entries)
    symbols, recorded = _symbols(kernel, known), {entry.cpu for entry in known}
    pages = [
        _pages(kernel, f"{prefix}per_cpu/cpu{cpu}/trace_pipe_raw") if cpu in recorded else b""
        for cpu in range(kernel.cpus)
    ]
    return assembled(kernel, events, symbols, pages)


def assembled(kernel: SimulatedKernel, events: Iterable[str], symbols: bytes, pages: Sequence[bytes]) -> bytes:
    """Return a file of the pages of each CPU; `symbols` is a text like that of /proc/kallsyms."""
    tracefs = kernel.tracefs
    out = b"\x17\x08\x44tracing6\0" + bytes([0, 8]) + struct.pack("<I", _PAGE)
    for name in ("header_page", "header_event"):
        out += name.encode() + b"\0" + _sized("<Q", tracefs.read(f"events/{name}"))
    out += _formats(kernel, [f"ftrace/{name}" for name in _FTRACE])
    groups: dict[str, list[str]] = {}
    for event in events:
        groups.setdefault(event.partition("/")[0], []).append(event)
    out += struct.pack("<I", len(groups))
    for group, names in groups.items():
        out += group.encode() + b"\0" + _formats(kernel, names)
    out += _sized("<I", symbols) + _sized("<I", b"") + _sized("<Q", tracefs.read("saved_cmdlines"))
    uname = f"Linux simulated {kernel.release} x86_64\0".encode()
    out += struct.pack("<I", len(pages)) + b"options  \0"
    out += struct.pack("<H", _UNAME) + _sized("<I", uname) + struct.pack("<H", 0) + b"flyrecord\0"
    start = first_page = -(-(len(out) + 16 * len(pages)) // _PAGE) * _PAGE
    for data in pages:
        out += struct.pack("<QQ", start, len(data))
        start += len(data)
    return out.ljust(first_page, b"\0") + b"".join(pages)


def _sized(form: str, data: bytes) -> bytes:
    return struct.pack(form, len(data)) + data


def _symbols(kernel: SimulatedKernel, entries: Iterable[RingEntry]) -> bytes:
    """Return the symbols of all addresses in records, and the symbols after them, which tell where they end."""
    symbols = kernel.symbols
    named = {}
    for address in {address for entry in entries for address in _addresses(entry.data)}:
        if (symbol := symbols.containing(address)) is None:
            continue
        named[symbol.address, symbol.name] = symbol
        if (after := symbols.containing(symbol.address + symbol.size)) is not None:
            named[after.address, after.name] = after
    image = [symbol for symbol in named.values() if not symbol.module]
    tails = {symbol: f"\t[{symbol.module}]" if symbol.module else "" for symbol in named.values()}
    lines = [(symbol.address, f"{symbol.type} {symbol.name}{tail}") for symbol, tail in tails.items()]
    if image and symbols.containing(end := max(symbol.address + symbol.size for symbol in image)) is None:
        lines.append((end, "B _end"))  # something follows the last function of an image
    return "".join(f"{address:016x} {text}\n" for address, text in sorted(lines)).encode()


def _addresses(data: bytes) -> set[int]:
    """Return possible addresses of kernel code in a record; a probe's arguments may begin at any byte."""
    words = {int.from_bytes(data[start : start + 8], "little") for start in range(len(data) - 7)}
    return {word for word in words if word >= _LOWEST}


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
