"""`kprobe --latency`, `--hist`, `--count`, `--stacks`: results from the records of a trace, at its end."""

from __future__ import annotations

import re
import time

from kprobe.errors import NoSuchField
from kprobe.tracing.ends import functions, pointer
from kprobe.views.records import Records
from kprobe_text.figures.frequencies import WORDS
from kprobe_text.figures.options import figure_of
from kprobe_text.figures.shape import encoded
from kprobe_text.terminal.control_characters import width
from kprobe_text.terminal.output import note

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.options.command_line import CommandLine
    from kprobe.tracing.session import Trace
    from kprobe_text.figures.figure import Figure

TICK = 0.1
_WORD = re.compile(r"\w+")


class FigureView:
    """A figure of a trace's records, or of the kernel's counts."""

    def __init__(self, trace: Trace, request: CommandLine) -> None:
        option, of = asked(request)
        self._trace = trace
        _known(option, of, trace)
        self._is_json = request.json
        known = (functions(trace.probes), pointer(trace.probes)) if option == "--latency" else ()
        self._figure: Figure = figure_of(option, of, *known)
        self._records = None if trace.is_counted else Records(trace)
        self._is_silent = True
        words = "counted by the kernel" if trace.is_counted else f"from {'raw pages' if trace.is_raw else 'text'}"
        self.title = f", {option.lstrip('-')}{f' {of}' if of else ''}, {words}"

    def head(self) -> bytes:
        """Return nothing: a figure is printed at the end."""
        return b""

    def read(self, timeout: float) -> bytes | None:
        """Take the next records; return None if there were some, b"" at the end.  Raise `TimeoutError`."""
        if self._records is None:
            return self._wait(timeout)
        records = self._records.read(timeout)
        for record in records:
            self._figure.add(record)
        return None if records else b""

    def tail(self) -> bytes:
        """Return the figure, and print what it leaves out."""
        figure, trace = self._figure, self._trace
        figure.end()
        dropped = 0
        if trace.is_counted:
            for event, numbers, lost in trace.counted():
                dropped += lost
                for number, times in numbers.items():
                    figure.count(event, number, times)  # type: ignore[attr-defined]
        for words in figure.notes():
            note(f"NOTE: {words}")
        if dropped:
            note(f"NOTE: {dropped} events aren't counted: the kernel's table has no room for so many different values")
        if self._records is not None and (words := self._records.counts.words()):
            note(f"NOTE: {words}")
        objects = (encoded(shown) + "\n" for shown in figure.objects())
        text = "".join(objects) if self._is_json else figure.text(width())
        return text.encode("utf-8", "surrogateescape")

    def _wait(self, timeout: float) -> bytes | None:
        """Wait until the trace ends; return None earlier once something was counted."""
        trace = self._trace
        if trace.terms.duration is not None:
            trace.wait(timeout)
        end = time.monotonic() + timeout
        while not trace.is_stopped and trace.terms.duration is None:
            if time.monotonic() >= end:
                if self._is_silent and self._has_counted():
                    return None
                raise TimeoutError
            time.sleep(TICK)
        return None if self._is_silent and self._has_counted() else b""

    def _has_counted(self) -> bool:
        if any(numbers for _, numbers, _ in self._trace.counted()):
            self._is_silent = False
        return not self._is_silent


def _known(option: str, of: str, trace: Trace) -> None:
    """Raise `NoSuchField` if an option names a field that no event of the trace has."""
    words = WORDS if option == "--count" else ()
    if not of or of in words:
        return
    formats = trace.formats().values()
    if not any(re.search(rf"\b{re.escape(of)}\b", text) for text in formats):
        fields = dict.fromkeys(name for text in formats for name in _names(text))
        raise NoSuchField(of, [name for name in fields if not name.startswith(("common_", "__probe_"))], words)


def _names(text: str) -> list[str]:
    """Return the fields of a format file: the last word of each declaration, without the length of an array."""
    declared = (line.partition(";")[0].partition("[")[0] for line in text.splitlines() if line.startswith("\tfield:"))
    return [words[-1] for line in declared if (words := _WORD.findall(line))]


def asked(request: CommandLine) -> tuple[str, str]:
    """Return the command line's option for a figure, with its value."""
    if request.latency:
        return "--latency", ""
    if request.stacks:
        return "--stacks", ""
    return ("--hist", request.hist) if request.hist else ("--count", request.count)
