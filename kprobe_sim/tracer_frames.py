"""What the tracer itself adds to a kernel stack, where its own functions aren't skipped (the trigger stacktrace)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kprobe_sim.symbols import SymbolTable

_TRAMPOLINE = 0xFFFFFFFFC020E0C8  # in the ftrace trampoline, which has no symbol; differs from boot to boot
_FENTRY_SIZE = 5


class _Frames(NamedTuple):
    """Return addresses by way into the tracer, innermost first."""

    event: tuple[str, ...]  # from the event's function to the kprobe's handler
    shared: str  # there, where several kprobes are at one address
    ftrace: str
    int3: tuple[str, ...]
    returning: tuple[str, ...]
    marker: tuple[str, ...]


# Recorded from the builds named, with the trigger stacktrace and the option sym-offset.
_FRAMES = {
    "6.1.0-54-cloud-amd64": _Frames(
        event=("kprobe_trace_func+0x1a5", "kprobe_dispatcher+0x3c"),
        shared="aggr_pre_handler+0x40",
        ftrace="kprobe_ftrace_handler+0x10b",
        int3=("kprobe_int3_handler+0x99", "exc_int3+0x44", "asm_exc_int3+0x35"),
        returning=(
            *("kretprobe_trace_func+0x1bb", "kretprobe_dispatcher+0x58", "kretprobe_rethook_handler+0x44"),
            *("rethook_trampoline_handler+0x8f", "arch_rethook_trampoline_callback+0x36"),
            "arch_rethook_trampoline+0x2c",
        ),
        marker=(
            *("tracing_mark_write+0x1fc", "vfs_write+0xc7", "ksys_write+0xb7"),
            *("do_syscall_64+0x5d", "entry_SYSCALL_64_after_hwframe+0x6e"),
        ),
    ),
}


class TracerFrames:
    """The frames of one kernel build; of a build that none are recorded of, there are none."""

    def __init__(self, release: str, symbols: SymbolTable) -> None:
        self._frames = _FRAMES.get(release)
        self._symbols = symbols

    def entry(self, here: int, shared: bool, chain: Sequence[int]) -> list[int]:
        """Return the stack of a probe at a function's entry; `shared`: it isn't the only one there."""
        if self._frames is None:
            return [here + 1, *chain]
        middle = (self._frames.shared, self._frames.ftrace) if shared else (self._frames.ftrace,)
        return [*self._addresses((*self._frames.event, *middle)), _TRAMPOLINE, here + _FENTRY_SIZE, *chain]

    def breakpoint(self, here: int, chain: Sequence[int]) -> list[int]:
        """Return the stack of a probe behind a breakpoint."""
        if self._frames is None:
            return [here + 1, *chain]
        names = (*self._frames.event, self._frames.shared, *self._frames.int3)
        return [*self._addresses(names), here + 1, *chain]

    def returning(self, chain: Sequence[int]) -> list[int]:
        """Return the stack of a return probe."""
        return [*self._addresses(self._frames.returning if self._frames else ()), *chain]

    def marker(self) -> list[int]:
        """Return the stack of a write to trace_marker."""
        return self._addresses(self._frames.marker if self._frames else ())

    def _addresses(self, places: Sequence[str]) -> list[int]:
        found = []
        for place in places:
            name, _, offset = place.partition("+")
            symbols = self._symbols.lookup(name)
            if symbols:
                found.append(symbols[0].address + int(offset or "0", 16))
        return found
