"""A function call of the simulated machine: what a test says of it, as registers and memory."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, NamedTuple

from kprobe_sim.memory import CallMemory
from kprobe_sim.prototypes import CType
from kprobe_sim.task import Task
from kprobe_sim.workload import FRAMES

if TYPE_CHECKING:
    from kprobe_sim.kernel import SimulatedKernel

ARGUMENT_REGISTERS = ("di", "si", "dx", "cx", "r8", "r9")  # System V x86-64, as the kernel's $argN
REGISTERS = (
    *("r15", "r14", "r13", "r12", "bp", "bx", "r11", "r10", "r9", "r8", "ax", "cx", "dx", "si", "di"),
    *("orig_ax", "ip", "cs", "flags", "sp", "ss"),
)
_STACK_TOP = 0xFFFFC90000014000  # the end of a kernel stack
_STACK_USED = 0x1F8  # bytes between the frame and pt_regs of a system call at the end
_PLACE = re.compile(r"([^+/]+)(?:\+(0x[0-9a-fA-F]+|[0-9]+))?(?:/(0x[0-9a-fA-F]+|[0-9]+))?\Z")


class Call(NamedTuple):
    """The arguments of `SimulatedKernel.call`."""

    function: str
    task: Task
    args: tuple[int | str | bytes, ...] = ()
    returns: int | None = 0
    caller: str = ""
    registers: dict[str, int] = {}
    memory: dict[int, bytes] = {}
    stack: tuple[str | int, ...] = ()
    offset: int = 0
    cpu: int = 0
    at: int | None = None
    duration: int | None = None


class Frame(NamedTuple):
    """A call made concrete: where it is, the registers there, the memory, the return addresses."""

    entry: int  # address of the function
    registers: dict[str, int]
    memory: CallMemory
    stack: tuple[int, ...]  # words from the stack pointer up
    chain: tuple[int, ...]  # return addresses, the caller's first


def place_frame(kernel: SimulatedKernel, call: Call) -> Frame:
    """Make a call concrete.  Raises ValueError for names, registers or CPUs that the kernel doesn't have."""
    if not 0 <= call.cpu < kernel.cpus:
        raise ValueError(f"no CPU {call.cpu}: this kernel has {kernel.cpus}")
    unknown = sorted(set(call.registers) - set(REGISTERS))
    if unknown:
        raise ValueError(f"no register {unknown[0]!r}: the kernel's names are {', '.join(REGISTERS)}")
    entry = _address(kernel, call.function, "function")
    chain = _chain(kernel, call)
    memory = CallMemory(kernel.memory, call.memory)
    values = [_value(kernel, memory, call.function, index, arg) for index, arg in enumerate(call.args)]
    beyond = values[len(ARGUMENT_REGISTERS) :]
    words = (chain[0] if chain else 0, *beyond)
    pointer = _STACK_TOP - _STACK_USED - 8 * len(words)
    memory.put(pointer, struct.pack(f"<{len(words)}Q", *words).ljust(_STACK_TOP - pointer, b"\0"))
    registers = dict.fromkeys(REGISTERS, 0)
    registers.update(zip(ARGUMENT_REGISTERS, values, strict=False))
    registers.update(cs=0x10, ss=0x18, flags=0x246, sp=pointer, orig_ax=2**64 - 1, ip=entry + call.offset + 1)
    registers.update({name: value & (2**64 - 1) for name, value in call.registers.items()})
    return Frame(entry, registers, memory, words, chain)


def _value(kernel: SimulatedKernel, memory: CallMemory, function: str, index: int, arg: int | str | bytes) -> int:
    if isinstance(arg, int):
        prototype = kernel.profile.prototype(function)
        known = prototype.parameters[index : index + 1] if prototype else ()
        return as_passed(arg, known[0].type if known else None)
    return memory.put_string(arg if isinstance(arg, bytes) else arg.encode("utf-8", "surrogateescape"))


def as_passed(value: int, kind: CType | None) -> int:
    """Return a number as a register holds it: compilers pass an int by its 32-bit register, which zeroes the rest."""
    bits = 32 if kind is not None and 0 < kind.size <= 4 and kind.kind != "ptr" else 64
    return value & ((1 << bits) - 1)


def _chain(kernel: SimulatedKernel, call: Call) -> tuple[int, ...]:
    places: list[str | int] = list(call.stack)
    if call.caller and (not places or places[0] != call.caller):
        places.insert(0, call.caller)
    chain = [place if isinstance(place, int) else _address(kernel, place, "caller") for place in places]
    if len(chain) == 1:
        caller = kernel.symbols.at(chain[0])
        if caller is not None and caller.name.startswith("__x64_sys_"):
            frames = FRAMES.get(kernel.release)
            chain += [_address(kernel, frame, "frame") for frame in frames.syscall] if frames else []
    return tuple(address for address in chain if address)


def _address(kernel: SimulatedKernel, place: str, what: str) -> int:
    match = _PLACE.match(place)
    found = kernel.symbols.lookup(match.group(1)) if match else []
    if match and match.group(3):
        # SYMBOL+OFFSET/SIZE tells all that is needed to have the symbol: listings of other kernels are full of them
        size = int(match.group(3), 0)
        found = [symbol for symbol in found if symbol.size == size] or [kernel.symbols.add(match.group(1), size=size)]
    if not match or not found:
        raise ValueError(
            f"no symbol for the {what} {place!r} in {kernel.release}: add it with add_function(), or give +OFFSET/SIZE"
        )
    return found[0].address + int(match.group(2) or "0", 0)
