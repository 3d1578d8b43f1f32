"""What shows the record of a static event: its name and its `print fmt`, or a system call's own text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from kprobe_sim.event import StaticEvent
from kprobe_sim.print_fmt import compile_print_fmt, print_fmt_of
from kprobe_sim.printk import Pointers
from kprobe_sim.syscall_text import enter_text, exit_text

if TYPE_CHECKING:
    from kprobe_sim.kernel import SimulatedKernel

_PRINTK_FORMAT = re.compile(rb'0x([0-9a-f]+) : "(.*)"\n')


def static_text(
    kernel: SimulatedKernel, event: StaticEvent, *, hashed: bool = True, verbose: bool = False
) -> Callable[[bytes], bytes]:
    """Return what makes the text of an event's records, newline included; `hashed`: %p hides addresses.

    Raises NotEvaluable for an event whose text takes more of the kernel than its record and format file.
    """
    if event.system == "syscalls":
        if event.name.startswith("sys_exit_"):
            return exit_text(event)
        return enter_text(event, verbose=verbose, shows_user_memory=kernel.gates.syscalls_show_user_memory)
    hashes = kernel.hashed_pointer if hashed else lambda address: address
    pointers = Pointers(
        lambda address, offset: _symbol(kernel, address, offset), hashes, lambda address: _string(kernel, address)
    )
    text = event.format().decode("latin-1")
    body = compile_print_fmt(print_fmt_of(text), event.filter_fields(), pointers)
    label = event.name.encode() + b": "
    return lambda record: label + body(record) + b"\n"


def printk_formats(text: bytes) -> dict[int, bytes]:
    """Read the strings of printk_formats by their addresses: records point to them (tracepoint_string)."""
    return {int(address, 16): string for address, string in _PRINTK_FORMAT.findall(text)}


def _symbol(kernel: SimulatedKernel, address: int, offset: bool) -> bytes:
    symbol = kernel.symbols.at(address)
    if symbol is None:
        return b"0x%x" % address
    if offset:
        return kernel.symbol_text(address, True)
    return f"{symbol.name} [{symbol.module}]".encode() if symbol.module else symbol.name.encode()


def _string(kernel: SimulatedKernel, address: int) -> bytes | None:
    known = kernel.statics.strings.get(address)
    if known is not None:
        return known
    data = kernel.memory.stretch(address, 1024)
    return data.split(b"\0", 1)[0] if data else None
