"""The column of flags, from the two bytes that every record has: ``d..1.`` and the like.

The letters are those of kernel/trace/trace_output.c (trace_print_lat_fmt).
"""

import re
from typing import Final, NamedTuple

_IRQS_OFF, _LAZY, _RESCHED, _HARDIRQ, _SOFTIRQ, _PREEMPT, _NMI, _BH_OFF = (1 << bit for bit in range(8))
_UNKNOWN: Final = _LAZY  # whether interrupts are off isn't known
_NEEDS: Final = {
    _RESCHED: "n", _PREEMPT: "p", _LAZY: "l", _RESCHED | _PREEMPT: "N", _RESCHED | _LAZY: "b", _PREEMPT | _LAZY: "L",
    _RESCHED | _PREEMPT | _LAZY: "B",
}  # fmt: skip
_RELEASE: Final = re.compile(r"\b(\d+)\.(\d+)\S*")


class Letters(NamedTuple):
    """The letters that a kernel prints, as of 7.3.

    `migrate`: a fifth one says how deep migration is disabled (from 5.15 on).  `bottom_halves`: ``b`` and ``D`` (5.19).
    `lazy`: the second bit is a lazy need to reschedule (6.14, and RT kernels of 6.12); before, that the state of
    interrupts is unknown.  Source: docs/kernel/trace.md#number-of-letters and what follows there.
    """

    migrate: bool = True
    bottom_halves: bool = True
    lazy: bool = True


ALL_LETTERS: Final = Letters()


def letters_of(uname: str) -> Letters:
    """Return the letters of the kernel that a file names: by its version, as nothing else in the file tells them."""
    found = _RELEASE.search(uname)
    if found is None:
        return ALL_LETTERS
    release = int(found[1]), int(found[2])
    return Letters(release >= (5, 15), release >= (5, 19), release >= ((6, 12) if "-rt" in found[0] else (6, 14)))


def flags_text(flags: int, preempt_count: int, letters: Letters) -> str:
    """Return the column as the kernel prints it."""
    if not letters.bottom_halves:
        flags &= ~_BH_OFF
    off = {_IRQS_OFF: "d", _BH_OFF: "b", _IRQS_OFF | _BH_OFF: "D"}.get(flags & (_IRQS_OFF | _BH_OFF), ".")
    if not letters.lazy:
        off = "X" if off == "." and flags & _UNKNOWN else off
        flags &= ~_UNKNOWN
    need = _NEEDS.get(flags & (_RESCHED | _PREEMPT | _LAZY), ".")
    hard, soft, nmi = flags & _HARDIRQ, flags & _SOFTIRQ, flags & _NMI
    context = ("Z" if hard else "z") if nmi else ("H" if soft else "h") if hard else "s" if soft else "."
    if not letters.migrate:
        return f"{off}{need}{context}{f'{preempt_count:x}' if preempt_count else '.'}"
    depth, migrate = preempt_count & 0xF, preempt_count >> 4
    return f"{off}{need}{context}{f'{depth:x}' if depth else '.'}{f'{migrate:x}' if migrate else '.'}"


class Flags(dict[int, str]):
    """The columns of flags met so far, by ``flags << 8 | preemption count``."""

    def __init__(self, letters: Letters) -> None:
        super().__init__()
        self._letters = letters

    def __missing__(self, key: int) -> str:
        self[key] = found = flags_text(key >> 8 & 255, key & 255, self._letters)
        return found
