"""The state of the machine when a probe is hit, which fetch arguments read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from kprobe_sim.named_tuple import NamedTuple

TASK_SIZE = 0x7FFF_FFFF_F000  # the end of user space
KERNEL_START = 0xFFFF_8000_0000_0000  # the start of kernel memory: the kernel reads nothing between the two
_VSYSCALL = range(0xFFFF_FFFF_FF60_0000, 0xFFFF_FFFF_FF60_1000)  # a page above it that is the user's: not read either


class AddressSpace(Protocol):
    """Memory of kernel and user in one address space."""

    def read(self, address: int, size: int) -> bytes | None:
        """Return `size` bytes, or None if any of them can't be read."""
        ...

    def string(self, address: int, limit: int) -> bytes | None:
        """Return the bytes before the first NUL, at most `limit`; None if one of them can't be read."""
        ...


def fetch(memory: AddressSpace, address: int, size: int, *, user: bool) -> bytes | None:
    """Read memory as a fetch instruction does: the user-space reader reads nothing beyond user space."""
    if user and address + size > TASK_SIZE:
        return None
    return memory.read(address, size)


def is_kernels(address: int) -> bool:
    """Return whether the kernel tries to read an address as kernel memory."""
    return address >= KERNEL_START and address not in _VSYSCALL


class Unmapped:
    """Memory with nothing in it."""

    def read(self, address: int, size: int) -> bytes | None:
        """Return None: nothing can be read."""
        return None

    def string(self, address: int, limit: int) -> bytes | None:
        """Return None: nothing can be read."""
        return None


UNMAPPED = Unmapped()


class Current(NamedTuple):
    """Addresses of the running task's task_struct and comm.

    `per_cpu` is what is added to a per-CPU variable's address, modulo 2**64, to get the address of its copy.
    """

    task: int
    comm: int
    per_cpu: int


NOWHERE = Current(0, 0, 0)
_TASKS = 0xFFFF_8880_0400_0000  # task_structs, one after the other by pid
_TASK_ROOM = 0x2000


def task_address(pid: int) -> int:
    """Return the address of a task's task_struct."""
    return _TASKS + pid * _TASK_ROOM


class State(NamedTuple):
    """Registers, memory and task at one hit.

    `registers` has 64-bit unsigned values by the kernel's names (r15 … ss, orig_ax); those left out are 0.  `stack`
    has the words from the stack pointer up ($stack0 …); beyond them $stackN is 0.  `return_value` is what $retval
    reads at a return probe.  `current` says where the task's memory is.  `record` is that of the event that an event
    probe is attached to.  `entry` is the state at the entry of the returning function, from which a return probe
    takes its arguments ($argN).  `mapped` is the address of a uprobe's file in memory, None at other probes.
    """

    registers: Mapping[str, int]
    memory: AddressSpace
    stack: Sequence[int] = ()
    comm: bytes = b""
    return_value: int = 0
    current: Current = NOWHERE
    record: bytes = b""
    entry: State | None = None
    mapped: int | None = None
