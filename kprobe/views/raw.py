"""The records of a raw trace as lines, for `kprobe --raw`."""

from __future__ import annotations

from kprobe_text.figures.shape import Counts, text
from kprobe_text.terminal.output import note
from kprobe_text.text import Header

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.options.command_line import CommandLine
    from kprobe.tracing.session import Trace


class RawView:
    """Shows a raw trace as text: the lines that `kprobe parse` prints."""

    def __init__(self, trace: Trace, request: CommandLine) -> None:
        self.title = ", raw pages"
        self._trace = trace
        self._counts = Counts()
        self._reported = 0

    def head(self) -> bytes:
        """Return nothing: raw pages have no column headings."""
        return b""

    def tail(self) -> bytes:
        """Return nothing: all records have been read."""
        return b""

    def read(self, timeout: float | None = None) -> bytes:
        """Return the next lines; b"" at the end, after a word on what isn't as a reader may expect.

        Raise `TimeoutError` after `timeout` seconds without any.
        """
        while True:
            records = self._trace.read_records(timeout)
            self._complain()
            if not records:
                if words := self._counts.words():
                    note(f"NOTE: {words}")
                return b""
            lines = []
            for record in records:
                if not isinstance(record, Header):
                    self._counts.add(record)
                    lines.append(text(record, ""))
            if lines:
                return "".join(lines).encode("utf-8", "surrogateescape")

    def _complain(self) -> None:
        problems = self._trace.problems()
        for words in problems[self._reported :]:
            note(f"WARNING: {words}")
        self._reported = len(problems)
