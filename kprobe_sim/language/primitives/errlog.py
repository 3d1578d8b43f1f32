"""The error_log of a trace instance: the last eight refusals with a caret under the fault."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from kprobe_sim.named_tuple import NamedTuple

_PREFIX = "  Command: "
_KEPT = 8  # TRACING_LOG_ERRS_MAX


class _Entry(NamedTuple):
    head: str  # "LOCATION: error: TEXT"
    command: str
    column: int
    time: int


class ErrorLog:
    """The ring behind one `error_log` file.

    `clock` gives the local trace clock in nanoseconds.  `command_size` is the size of the kernel's buffer for the
    command (256 bytes on 5.10, which cuts long commands, loses their newline and has one byte for the column), or None
    where the buffer grows (6.1 and later).
    """

    __slots__ = ("_clock", "_columns", "_entries", "_room")

    def __init__(self, clock: Callable[[], int], command_size: int | None = None) -> None:
        self._clock = clock
        self._entries: deque[_Entry] = deque(maxlen=_KEPT)
        self._columns = 0xFFFF if command_size is None else 0xFF
        # The buffer also holds a newline, the prefix and the final NUL.
        self._room = None if command_size is None else command_size - len(_PREFIX) - 2

    def log(self, location: str, text: str, command: str, column: int) -> None:
        """Add an entry: `location` as "trace_kprobe", `text` the message, `column` 0-based within `command`."""
        line = f"{command}\n"[: self._room]
        self._entries.append(_Entry(f"{location}: error: {text}", line, column & self._columns, self._clock()))

    def clear(self) -> None:
        """Forget all entries (open for writing with O_TRUNC)."""
        self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)

    def text(self) -> bytes:
        """Return the text of the file, oldest entry first."""
        return b"".join(self.records())

    def records(self) -> list[bytes]:
        """Return the entries as the file shows them."""
        return [
            (
                f"[{entry.time // 10**9:5d}.{entry.time % 10**9 // 1000:06d}] {entry.head}\n{_PREFIX}{entry.command}"
                f"{' ' * (len(_PREFIX) + entry.column)}^\n"
            ).encode("latin-1")
            for entry in self._entries
        ]
