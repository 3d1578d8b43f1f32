"""`kprobe --json` and `--csv`: each record as a line, as soon as it arrives."""

from __future__ import annotations

from kprobe.errors import Refused, UndoFailed
from kprobe.views.records import Records
from kprobe_text.figures.shape import csv_line, encoded, ndjson, title
from kprobe_text.terminal.output import note

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.options.command_line import CommandLine
    from kprobe.tracing.session import Trace


class LinesView:
    """The records of a trace as lines of JSON, between lines for its beginning and its end; or as rows of CSV."""

    def __init__(self, trace: Trace, request: CommandLine) -> None:
        self.title = ""
        self._trace = trace
        self._is_json = request.json
        self._shape = ndjson if request.json else csv_line
        self._records = Records(trace)

    def head(self) -> bytes:
        """Return the line for the trace's beginning, or the names of the columns."""
        return _line(_began(self._trace, self._records.source)) if self._is_json else title("csv").encode()

    def read(self, timeout: float) -> bytes:
        """Return the next lines; b"" at the end.  Raise `TimeoutError`."""
        return "".join(self._shape(record, "") for record in self._records.read(timeout)).encode(
            "utf-8", "surrogateescape"
        )

    def tail(self) -> bytes:
        """Return the line for the trace's end; with CSV, print a note instead."""
        if self._is_json:
            return _line(ended(self._trace, self._records))
        if words := self._records.counts.words():
            note(f"NOTE: {words}")
        return b""


def _began(trace: Trace, source: str) -> dict[str, object]:
    events = [{"name": probe.name, "group": probe.group, "definition": str(probe)} for probe in trace.probes]
    return {"type": "status", "state": "began", "source": source, "filter": trace.terms.filter, "events": events}


def ended(trace: Trace, records: Records) -> dict[str, object]:
    """Return the end of a trace as JSON."""
    counts = records.counts
    return {
        "type": "status", "state": "ended", "events": records.events, "stacks": records.stacks, "lost": counts.lost,
        "gaps": counts.gaps, "unparsed": counts.unread, "incomplete": counts.incomplete, "guessed": counts.guessed,
        "missed": trace.missed(),
    }  # fmt: skip


def error_line(error: BaseException) -> bytes:
    """Return an error as a line of JSON, with the kernel's words for a refusal."""
    shown: dict[str, object] = {"type": "error", "message": str(error), "kind": type(error).__name__}
    if isinstance(error, Refused):
        shown |= {
            "path": error.path, "command": error.command, "errno": error.errno, "says": error.says,
            "source": error.source, "shown": error.shown, "column": error.column, "hint": error.hint,
        }  # fmt: skip
    elif isinstance(error, UndoFailed):
        shown["left"] = [step for step, _ in error.failures]
    elif isinstance(error, OSError):
        shown |= {"path": error.filename, "errno": error.errno}
    return _line(shown)


def _line(shown: dict[str, object]) -> bytes:
    return (encoded(shown) + "\n").encode("utf-8", "surrogateescape")
