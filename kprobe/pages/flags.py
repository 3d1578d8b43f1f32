"""The column of flags, from the two bytes that every record has: ``d..1.`` and the like.

The letters are those of kernel/trace/trace_output.c (trace_print_lat_fmt) of 7.2.
"""

from typing import Final

_IRQS_OFF, _LAZY, _RESCHED, _HARDIRQ, _SOFTIRQ, _PREEMPT, _NMI, _BH_OFF = (1 << bit for bit in range(8))
_NEEDS: Final = {
    _RESCHED: "n", _PREEMPT: "p", _LAZY: "l", _RESCHED | _PREEMPT: "N", _RESCHED | _LAZY: "b", _PREEMPT | _LAZY: "L",
    _RESCHED | _PREEMPT | _LAZY: "B",
}  # fmt: skip


def flags_text(flags: int, preempt_count: int, *, has_migrate_disable: bool) -> str:
    """Return the column as the kernel prints it: 5 characters where migrate-disable is shown (from 5.15 on), else 4."""
    off = {_IRQS_OFF: "d", _BH_OFF: "b", _IRQS_OFF | _BH_OFF: "D"}.get(flags & (_IRQS_OFF | _BH_OFF), ".")
    need = _NEEDS.get(flags & (_RESCHED | _PREEMPT | _LAZY), ".")
    hard, soft, nmi = flags & _HARDIRQ, flags & _SOFTIRQ, flags & _NMI
    context = ("Z" if hard else "z") if nmi else ("H" if soft else "h") if hard else "s" if soft else "."
    if not has_migrate_disable:
        return f"{off}{need}{context}{f'{preempt_count:x}' if preempt_count else '.'}"
    depth, migrate = preempt_count & 0xF, preempt_count >> 4
    return f"{off}{need}{context}{f'{depth:x}' if depth else '.'}{f'{migrate:x}' if migrate else '.'}"


class Flags(dict[int, str]):
    """The columns that were met, by ``flags << 8 | preemption count``."""

    def __init__(self, *, has_migrate_disable: bool) -> None:
        super().__init__()
        self.has_migrate_disable = has_migrate_disable

    def __missing__(self, key: int) -> str:
        self[key] = found = flags_text(key >> 8 & 255, key & 255, has_migrate_disable=self.has_migrate_disable)
        return found
