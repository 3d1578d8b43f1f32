"""The printer of a static event's record: its name and its `print fmt`, or a system call's own text."""

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
    look: Callable[[], None] = lambda: None,
    *,
    hashed: bool = True,
    verbose: bool = False,
) -> Callable[[bytes], bytes]:
    """Return what makes the text of an event's records, newline included; `hashed`: %p hides addresses.

    `look` is called when a text is made of what lies in memory.

    Raises NotEvaluable for an event whose text takes more of the kernel than its record and format file.
    """
    if event.system == "syscalls":
        if event.name.startswith("sys_exit_"):
            return exit_text(event)
        return enter_text(event, machine.gates, verbose=verbose)
    hashes = machine.hashed_pointer if hashed else lambda address: address
    pointers = Pointers(
        lambda address, offset: pointer_symbol(machine, address, offset=offset),
        hashes,
        lambda address: kernel_string(machine, address, look),
    )
    text = event.format().decode("latin-1")
    body = compile_print_fmt(print_fmt_of(text), event.filter_fields(), pointers)
    label = event.name.encode() + b": "
    return lambda record: label + body(record) + b"\n"


def pointer_symbol(machine: SimulatedMachine, address: int, *, offset: bool) -> bytes:
    """Return an address as %ps and, with the offset, %pS show it."""
    symbol = machine.symbols.at(address)
    if symbol is None:
        return b"0x%x" % address
    if offset:
        return machine.symbol_text(address, True)
    return with_module(symbol.name, symbol.module).encode()


def kernel_string(machine: SimulatedMachine, address: int, look: Callable[[], None]) -> bytes | None:
    """Return the string at an address of the kernel, None where nothing can be read; `look` is called for memory."""
    known = machine.strings.get(address)
    if known is not None:
        return known
    look()
    data = machine.memory.stretch(address, 1024)
    return data.split(b"\0", 1)[0] if data else None
