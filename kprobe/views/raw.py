"""The records of a raw trace as lines, for `kprobe --raw`."""

from __future__ import annotations

from kprobe.views.records import Records
from kprobe_text.figures.shape import text
from kprobe_text.terminal.output import note

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.options.command_line import CommandLine
    from kprobe.tracing.session import Trace


class RawView:
    """Shows a raw trace as text: the lines that `kprobe parse` prints."""

    def __init__(self, trace: Trace, request: CommandLine) -> None:
        self.title = ", raw pages"
        self._records = Records(trace)

    def head(self) -> bytes:
        """Return nothing: raw pages have no column headings."""
        return b""

    def tail(self) -> bytes:
        """Return nothing: all records have been read."""
        return b""

    def read(self, timeout: float) -> bytes:
        """Return the next lines; b"" at the end, after a note on what may surprise a reader.

        Raise `TimeoutError` after `timeout` seconds without any.
        """
        records = self._records.read(timeout)
        if not records and (words := self._records.counts.words()):
            note(f"NOTE: {words}")
        return "".join(text(record, "") for record in records).encode("utf-8", "surrogateescape")
