"""The text of a static event's record: its name and its `print fmt`, or a system call's own form."""

from __future__ import annotations

from collections.abc import Callable

from kprobe_sim.builds.symbol import with_module
from kprobe_sim.events.event import StaticEvent
from kprobe_sim.machine.simulated import SimulatedMachine
from kprobe_sim.text.print_fmt import compile_print_fmt, print_fmt_of
from kprobe_sim.text.printk import Pointers
from kprobe_sim.text.syscall_text import enter_text, exit_text


def static_text(
    machine: SimulatedMachine,
    event: StaticEvent,
    read_memory: Callable[[], None] = lambda: None,
    *,
    hashed: bool = True,
    verbose: bool = False,
) -> Callable[[bytes], bytes]:
    """Return the function that makes the text of an event's records, newline included; `hashed`: %p hides addresses.

    It calls `read_memory` when a text depends on the machine's memory.

    Raises NotEvaluable for an event whose text needs more of the kernel than its record and format file.
    """
    if event.system == "syscalls":
        if event.name.startswith("sys_exit_"):
            return exit_text(event)
        return enter_text(event, machine.gates, verbose=verbose)
    hashes = machine.hashed_pointer if hashed else lambda address: address
    pointers = Pointers(
        lambda address, offset: pointer_symbol(machine, address, offset=offset),
        hashes,
        lambda address: kernel_string(machine, address, read_memory),
    )
    text = event.format().decode("latin-1")
    body = compile_print_fmt(print_fmt_of(text), event.filter_fields(), pointers)
    label = event.name.encode() + b": "
    return lambda record: label + body(record) + b"\n"


def pointer_symbol(machine: SimulatedMachine, address: int, *, offset: bool) -> bytes:
    """Return an address as %ps shows it, or with `offset` as %pS does."""
    symbol = machine.symbols.containing(address)
    if symbol is None:
        return b"0x%x" % address
    if offset:
        return machine.symbol_text(address, True)
    return with_module(symbol.name, symbol.module).encode()


def kernel_string(machine: SimulatedMachine, address: int, read_memory: Callable[[], None]) -> bytes | None:
    """Return the string at an address of the kernel, None if it can't be read; call `read_memory` before a read."""
    known = machine.strings.get(address)
    if known is not None:
        return known
    read_memory()
    data = machine.memory.stretch(address, 1024)
    return data.split(b"\0", 1)[0] if data else None
