"""The state of the machine when a probe is hit, which fetch arguments read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from kprobe_sim.named_tuple import NamedTuple

TASK_SIZE = 0x7FFF_FFFF_F000  # the first address that user space can't have
KERNEL_START = 0xFFFF_8000_0000_0000  # the first that kernel memory can have: between them the reader tries none
_VSYSCALL = range(0xFFFF_FFFF_FF60_0000, 0xFFFF_FFFF_FF60_1000)  # a page up there that is the user's, not tried either


class AddressSpace(Protocol):
    """Memory, kernel's and user's in one address space."""

    def read(self, address: int, size: int) -> bytes | None:
        """Return `size` bytes, or None if any of them can't be read."""
        ...

    def string(self, address: int, limit: int) -> bytes | None:
        """Return the bytes before the first NUL, at most `limit`; None if one that can't be read comes before."""
        ...


def fetch(memory: AddressSpace, address: int, size: int, *, user: bool) -> bytes | None:
    """Read memory as a fetch instruction does: the user-space reader goes to no address beyond a task's."""
    if user and address + size > TASK_SIZE:
        return None
    return memory.read(address, size)


def is_kernels(address: int) -> bool:
    """Return whether the kernel's reader tries to read an address as the kernel's."""
    return address >= KERNEL_START and address not in _VSYSCALL


class Unmapped:
    """Memory at whose addresses nothing is."""

    def read(self, address: int, size: int) -> bytes | None:
        """Return None: nothing can be read."""
        return None

    def string(self, address: int, limit: int) -> bytes | None:
        """Return None: nothing can be read."""
        return None


UNMAPPED = Unmapped()


class Current(NamedTuple):
    """Addresses of what runs: the task's task_struct and its comm; `per_cpu` leads from a per-CPU variable to its copy.

    `per_cpu` is added to the variable's address, modulo 2**64.
    """

    task: int
    comm: int
    per_cpu: int


NOWHERE = Current(0, 0, 0)
_TASKS = 0xFFFF_8880_0400_0000  # task_structs, one after the other by pid
_TASK_ROOM = 0x2000


def task_address(pid: int) -> int:
    """Return where a task's task_struct is."""
    return _TASKS + pid * _TASK_ROOM


class State(NamedTuple):
    """Registers, memory and task at one hit.

    `registers` has the kernel's names (r15 … ss, orig_ax) with 64-bit unsigned values; those left out are 0.  `stack`
    are the words from the stack pointer up ($stack0 …); beyond them $stackN is 0.  `return_value` is what $retval
    reads, at a return probe.  `current` says where the task's memory is.  `record` is that of the event that an event
    probe is attached to.  `entry` is the state at the entry of the function that returns: there the kernel takes the
    arguments that a return probe shows ($argN).  `mapped` is where the first byte of a uprobe's
    file is, None at other probes.
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
