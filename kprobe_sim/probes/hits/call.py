"""A function call on the simulated machine: what a test states, as registers and memory."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from kprobe_sim.builds.page import KERNEL_STACK
from kprobe_sim.builds.prototypes import CType
from kprobe_sim.builds.symbol import Symbol
from kprobe_sim.language.fetch.expression import ARGUMENT_REGISTERS
from kprobe_sim.machine.memory import CallMemory
from kprobe_sim.machine.simulated import SimulatedMachine
from kprobe_sim.machine.state import Current, State
from kprobe_sim.machine.task import Task
from kprobe_sim.named_tuple import NamedTuple

REGISTERS = (
    *("r15", "r14", "r13", "r12", "bp", "bx", "r11", "r10", "r9", "r8", "ax", "cx", "dx", "si", "di"),
    *("orig_ax", "ip", "cs", "flags", "sp", "ss"),
)
_MASK = (1 << 64) - 1
_HALF_MASK = (1 << 32) - 1
_SYSTEM_CALLS = ("openat", "fork", "fadvise")  # whose chains are recorded for the workload
_OF_SYSTEM_CALLS = ("__x64_sys_", "SyS_", "sys_")  # the functions of system calls, since 4.17 and before
_REMEMBERED = 4096  # names and chains, at most
_NAMES = frozenset(REGISTERS)
_CALLER_SAVED = ("di", "si", "dx", "cx", "r8", "r9", "r10", "r11")  # which a function needn't restore; ax is its result
# What such a register holds at a return unless a test states it: an address of neither the kernel nor a task.
CLOBBERED = {name: 0xDEAD_0000_0000_0000 + 0x1111 * number for number, name in enumerate(_CALLER_SAVED, 1)}
_BASE = {"cs": 0x10, "ss": 0x18, "flags": 0x246, "orig_ax": _MASK}  # those that aren't 0
_STACK_USED = 0x1F8  # bytes between the frame and pt_regs of a system call at the stack's end
_FRAME = 0x60  # bytes of stack that a call takes below the one around it
_WORD = struct.Struct("<Q")
_CALLER = re.compile(r"([^+/]+)(?:\+(0x[0-9a-fA-F]+|[0-9]+))?(?:/(0x[0-9a-fA-F]+|[0-9]+))?\Z")


class Call(NamedTuple):
    """The arguments of `SimulatedKernel.call`, for one of `SimulatedKernel.calls`.

    `returned` are the registers that are known at the return (None means those of `registers`).  `context` has the
    records' flags and preemption depth (None means those of a task's plain context).  `unwinding` is the time in ns
    from a record to that of its stack.
    """

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
    returned: Mapping[str, int] | None = None
    context: tuple[int, int] | None = None
    unwinding: int = 0


class Callee(NamedTuple):
    """A function that is called: where its arguments are, and the bits that each of them and its result fills.

    `here` is the probed address.  `arguments` are those in registers; the others are `stacked`, and may be more than
    the function has parameters.
    """

    here: int
    arguments: Sequence[tuple[str, int]]
    stacked: Sequence[int]
    result: int


class CallResolver:
    """Makes the calls of one kernel concrete; remembers the addresses of names."""

    def __init__(self, machine: SimulatedMachine) -> None:
        self._machine = machine
        self._stack_top = KERNEL_STACK + machine.profile.thread_size - _STACK_USED
        self._addresses: dict[str, int] = {}
        self._chains: dict[tuple[str, tuple[str | int, ...]], tuple[int, ...]] = {}
        self._symbols = machine.symbols.version  # addresses hold while no symbols are added

    def check(self, call: Call) -> None:
        """Raise ValueError for a CPU or registers that don't exist."""
        check_state(self._machine, call.cpu, call.registers)

    def resolve(self, call: Call) -> None:
        """Raise ValueError for a call that can't be made, as names, CPUs or registers don't exist."""
        self.check(call)
        self.entry(call.function)
        self.chain(call)

    def entry(self, function: str) -> int:
        """Return the address of a function.  Raises ValueError if no function has that name."""
        symbols = self._machine.symbols
        if symbols.version != self._symbols:
            self._addresses.clear()
            self._chains.clear()
        entry = self._address(function, "function")
        self._symbols = symbols.version
        return entry

    def callee(self, function: str, here: int) -> Callee:
        """Return what fills the registers of a function that is probed at an address."""
        prototype = self._machine.profile.prototype(function)
        parameters = prototype.parameters if prototype else ()
        result = prototype.returns if prototype else None
        masks = [_mask(parameter.type) for parameter in parameters]
        padded = [*masks, *[_MASK] * len(ARGUMENT_REGISTERS)]
        in_registers = tuple(zip(ARGUMENT_REGISTERS, padded, strict=False))
        return Callee(here, in_registers, masks[len(ARGUMENT_REGISTERS) :], _mask(result))

    def chain(self, call: Call) -> tuple[int, ...]:
        """Return the return addresses, the caller's first.  Raises ValueError for names that don't exist."""
        key = call.caller, call.stack
        chain = self._chains.get(key)
        if chain is None:
            if len(self._chains) >= _REMEMBERED:
                self._chains.clear()
            chain = self._chains[key] = self._chain(call)
            self._symbols = self._machine.symbols.version
        return chain

    def state(
        self, call: Call, callee: Callee, chain: tuple[int, ...], comm: bytes, current: Current, depth: int
    ) -> State:
        """Return the registers, memory and stack of a call that came by `chain`, at the probed address.

        `depth` is how many calls of the task are under way around this one.
        """
        memory = CallMemory(self._machine.memory, call.memory)
        registers = _BASE.copy()
        args, return_address = call.args, chain[0] if chain else 0
        for arg, (register, mask) in zip(args, callee.arguments, strict=False):
            registers[register] = arg & mask if isinstance(arg, int) else memory.put_string(as_bytes(arg))
        if len(args) <= len(ARGUMENT_REGISTERS):
            stack: tuple[int, ...] = (return_address,)
            packed = _WORD.pack(return_address)
        else:
            stack = (return_address, *self._stacked(args[len(ARGUMENT_REGISTERS) :], callee, memory))
            packed = struct.pack(f"<{len(stack)}Q", *stack)
        registers["sp"] = pointer = self._stack_top - depth * _FRAME - len(packed)
        memory.put(pointer, packed, _STACK_USED + depth * _FRAME)
        if call.registers:
            for name, value in call.registers.items():
                registers[name] = value & _MASK
        registers["ip"] = callee.here + 1
        return State(registers, memory, stack, comm, 0, current)

    def _stacked(self, args: Sequence[int | str | bytes], callee: Callee, memory: CallMemory) -> Iterator[int]:
        """Yield the arguments that are on the stack."""
        for arg, mask in zip_longest(args, callee.stacked[: len(args)], fillvalue=_MASK):
            yield arg & mask if isinstance(arg, int) else memory.put_string(as_bytes(arg))

    def at_return(
        self, call: Call, callee: Callee, before: Mapping[str, int], chain: tuple[int, ...]
    ) -> dict[str, int]:
        """Return the registers after the return of a call, given those before it.

        A function restores the registers that belong to its caller, and may leave anything in the others.
        """
        registers = {**before, **CLOBBERED}
        stated = call.registers if call.returned is None else call.returned
        for name, value in stated.items():
            registers[name] = value & _MASK
        registers["ax"] = (call.returns or 0) & callee.result
        if self._machine.gates.nested_returns_know:  # the handler leaves what the trampoline put there
            registers["ip"] = self._machine.return_trampoline
        else:
            registers["ip"] = chain[0] if chain else 0
        registers["sp"] = before["sp"] + 8
        return registers

    def _chain(self, call: Call) -> tuple[int, ...]:
        callers: list[str | int] = list(call.stack)
        if call.caller and (not callers or callers[0] != call.caller):
            callers.insert(0, self._recorded(call.caller))
        chain = [caller if isinstance(caller, int) else self._address(caller, "caller") for caller in callers]
        if len(chain) == 1:
            chain += [self._address(frame, "frame") for frame in self._callers(chain[0])]
        return tuple(address for address in chain if address)

    def _callers(self, address: int) -> Sequence[str]:
        """Return the callers of every system call of the build, if the address is in a system call's function."""
        recorded: Sequence[str] = self._machine.profile.chains.get("openat", ())
        symbol = self._machine.symbols.containing(address)
        if not recorded or symbol is None:
            return ()
        callers = recorded[1:] if recorded[0].startswith(_OF_SYSTEM_CALLS) else recorded
        if symbol.name.startswith(_OF_SYSTEM_CALLS):
            return callers
        # before 5.10 openat(2) may end in a jump to the function that does the work: that one has its caller
        return callers[1:] if address == self._address(recorded[0], "frame") else ()

    def _recorded(self, caller: str) -> str:
        """Return a caller without +OFFSET as it was recorded with one, if the build was seen calling from there."""
        chains = self._machine.profile.chains
        recorded: list[str] = [chains[name][0] for name in _SYSTEM_CALLS if chains.get(name)]
        return next((known for known in recorded if known.partition("+")[0] == caller), caller)

    def _address(self, name: str, what: str) -> int:
        address = self._addresses.get(name)
        if address is None:
            if len(self._addresses) >= _REMEMBERED:
                self._addresses.clear()
            address = self._addresses[name] = self._find(name, what)
        return address

    def _find(self, name: str, what: str) -> int:
        symbols = self._machine.symbols
        match = _CALLER.match(name)
        found = symbols.lookup(match.group(1)) if match else []
        if match and match.group(3):
            # SYMBOL+OFFSET/SIZE says enough to add the symbol: listings of other kernels are full of them
            size = int(match.group(3), 0)
            found = [symbol for symbol in found if symbol.size == size]
            found = found or [symbols.add(Symbol(match.group(1), size=size))]
        if not match or not found:
            raise ValueError(
                f"no symbol for the {what} {name!r} in {self._machine.release}: "
                "add it with add_function(), or give +OFFSET/SIZE"
            )
        return found[0].address + int(match.group(2) or "0", 0)


def check_state(machine: SimulatedMachine, cpu: int, registers: Mapping[str, int]) -> None:
    """Raise ValueError for a CPU or registers that don't exist."""
    if not 0 <= cpu < machine.cpus:
        raise ValueError(f"no CPU {cpu}: this kernel has {machine.cpus}")
    if not registers.keys() <= _NAMES:
        unknown = sorted(registers.keys() - _NAMES)
        raise ValueError(f"no register {unknown[0]!r}: the kernel's names are {', '.join(REGISTERS)}")


def with_return_address(state: State, address: int) -> State:
    """Return the state at a function's entry with another return address on the stack."""
    assert isinstance(state.memory, CallMemory)
    memory = state.memory.overlaid(state.registers["sp"], address.to_bytes(8, "little"))
    return state._replace(memory=memory, stack=(address, *state.stack[1:]))


def as_bytes(text: str | bytes) -> bytes:
    """Return a text in bytes, as a program would have it in memory."""
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")


def _mask(kind: CType | None) -> int:
    """Return the bits of a register that a value fills: compilers pass an int by 32, which zeroes the rest."""
    return _HALF_MASK if kind is not None and 0 < kind.size <= 4 and kind.kind != "ptr" else _MASK
