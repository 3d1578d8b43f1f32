"""The input and output of commands."""

from __future__ import annotations

from kprobe_check.sources.texts import Text


class Target(list[Text]):
    """Where a command's output goes: a file of a tracefs, or, with an empty path, this list."""

    def __init__(self, path: str = "") -> None:
        super().__init__()
        self.path = path


class Streams:
    """A command's input, and the targets of its output and of its other descriptors."""

    def __init__(self, out: tuple[Target, ...] = (), read: tuple[Text, ...] | None = None) -> None:
        self.out = out
        self.read = read
        self.others: dict[str, tuple[Target, ...]] = {}

    def copy(self) -> Streams:
        """Return the same, to be changed for one command."""
        new = Streams(self.out, self.read)
        new.others = dict(self.others)
        return new
