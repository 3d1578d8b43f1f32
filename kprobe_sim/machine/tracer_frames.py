"""The tracer's frames in a kernel stack, where they aren't skipped (the trigger stacktrace)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from kprobe_sim.builds.added import FENTRY_SIZE
from kprobe_sim.builds.profile import Profile
from kprobe_sim.builds.symbols import SymbolTable


class Way(Enum):
    """How a function's entry calls the tracer; the values are names of call chains in a profile."""

    ALONE = "alone"  # by the trampoline of its only user
    LISTED = "listed"  # by the list of all users, with all registers, which kprobes need
    LISTED_PLAIN = "listed_plain"  # by that list, with the registers of arguments alone


class TracerFrames:
    """The frames of one kernel build, as recorded in its profile; none where none were recorded."""

    def __init__(self, profile: Profile, symbols: SymbolTable) -> None:
        self._chains = profile.chains
        self._symbols = symbols

    def entry(self, here: int, shared: bool, way: Way, chain: Sequence[int]) -> list[int]:
        """Return the stack of a probe at a function's entry; `shared`: it isn't the only probe there."""
        frames = self._by(way, "entry")
        if not frames:
            return [here + 1, *chain]
        if shared:
            index = int(self._chains["shared_index"])
            frames[index:index] = self._frames("shared")
        return [*frames, here + FENTRY_SIZE, *chain]

    def fentry(self, here: int, way: Way, chain: Sequence[int]) -> list[int]:
        """Return the stack of an fprobe at a function's entry."""
        return [*self._by(way, "fentry"), here + FENTRY_SIZE, *chain]

    def fexit(self, chain: Sequence[int]) -> list[int]:
        """Return the stack of an fprobe on a function's return."""
        return [*self._frames("fexit"), *chain]

    def breakpoint(self, here: int, chain: Sequence[int]) -> list[int]:
        """Return the stack of a probe that uses a breakpoint."""
        return [*self._frames("breakpoint"), here + 1, *chain]

    def returning(self, chain: Sequence[int]) -> list[int]:
        """Return the stack of a return probe."""
        return [*self._frames("returning"), *chain]

    def marker(self) -> list[int]:
        """Return the stack of a write to trace_marker."""
        return self._frames("marker")

    def _by(self, way: Way, user: str) -> list[int]:
        """Return the frames of a user of ftrace, called by its own trampoline or through the list."""
        frames = self._frames(user)
        called = self._frames(way.value)
        return [*frames[:-1], *called] if called else frames

    def _frames(self, way: str) -> list[int]:
        """Return the return addresses of a way into the tracer, innermost first."""
        found = []
        for frame in self._chains.get(way, ()):
            name, _, offset = frame.partition("+")
            symbols = self._symbols.lookup(name) if offset else []
            if symbols:
                found.append(symbols[0].address + int(offset, 16))
            elif not offset:
                found.append(int(frame, 16))  # in a trampoline, which has no symbol
        return found
