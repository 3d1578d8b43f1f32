"""Page faults of fetch arguments, which kernels up to 5.13 count as misses of the probe that reads.

Until 5.14 the fault handler of kprobes took every fault in a probe's handler for a missed hit.  The number of faults of
one read depends on how the kernel copies and retries: guests of 4.19.108 and 5.10.262 showed it in kprobe_profile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from kprobe_sim.machine.state import TASK_SIZE, AddressSpace, is_kernels
from kprobe_sim.named_tuple import NamedTuple

T = TypeVar("T")
_CANONICAL_END = 1 << 47


class Faults(NamedTuple):
    """The number of faults of a failing read, at a user's address and at one of the kernel.

    `number` is for each number or pointer, `measured` for measuring a string, `stored` for storing it: if there is room
    left, or, with `always`, in any case.  `end` is the end of user addresses.
    """

    number: tuple[int, int]
    measured: tuple[int, int]
    stored: tuple[int, int]
    always: bool
    end: int


BY_RULE: Mapping[str, Faults] = {
    "4.19": Faults((2, 2), (1, 1), (1, 1), True, _CANONICAL_END),
    "5.10": Faults((2, 1), (1, 1), (2, 1), False, TASK_SIZE),
}


class CountedMemory:
    """Memory that counts the faults of its reads in `faults`; `plain` is the same memory without the count."""

    __slots__ = ("_rule", "faults", "plain")

    def __init__(self, memory: AddressSpace, rule: Faults) -> None:
        self.plain = memory
        self.faults = 0
        self._rule = rule

    def read(self, address: int, size: int) -> bytes | None:
        """Return `size` bytes, or None if any of them can't be read."""
        content = self.plain.read(address, size)
        if content is None:
            self._add(self._rule.number, address)
        return content

    def string(self, address: int, limit: int) -> bytes | None:
        """Return the bytes before the first NUL, at most `limit`; None if one of them can't be read."""
        content = self.plain.string(address, limit)
        if content is None:
            self._add(self._rule.measured, address)
        return content

    def storing(self, address: int, write: Callable[[int], T]) -> Callable[[int], T]:
        """Return what stores an unreadable string into some room: that counts as a fault, too."""

        def counted(room: int) -> T:
            if room or self._rule.always:
                self._add(self._rule.stored, address)
            return write(room)

        return counted

    def _add(self, counts: tuple[int, int], address: int) -> None:
        if address < self._rule.end:
            self.faults += counts[0]
        elif is_kernels(address):
            self.faults += counts[1]


def plain(memory: AddressSpace) -> AddressSpace:
    """Return memory whose faults aren't counted: for the readable stack, and for reads that aren't fetches."""
    return memory.plain if isinstance(memory, CountedMemory) else memory
