"""Views of a trace: the kernel's text unchanged, or another form of its records.

A view is a class with the methods of `Plain`.  To add one, add a line to `OTHERS`: its option, by its attribute of the
command line, and the class, which is imported when needed.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from kprobe.options.command_line import CommandLine
    from kprobe.tracing.session import Trace

    class View(Protocol):
        """Turns a trace into output; `title` follows the names of what is traced.

        `head` is printed before the machine plays, `tail` after the last result of `read`.
        """

        title: str

        def __init__(self, trace: Trace, request: CommandLine) -> None: ...

        def head(self) -> bytes: ...

        def read(self, timeout: float) -> bytes | None:
            """Return the next output, None if records gave none; b"" at the end.  Raise `TimeoutError`."""

        def tail(self) -> bytes: ...


OTHERS = {
    "latency": ("figures", "FigureView"),
    "hist": ("figures", "FigureView"),
    "count": ("figures", "FigureView"),
    "stacks": ("figures", "FigureView"),
    "json": ("lines", "LinesView"),
    "csv": ("lines", "LinesView"),
    "raw": ("raw", "RawView"),
}


def view(trace: Trace, request: CommandLine) -> View:
    """Return the view that the command line asks for."""
    for option, (module, name) in OTHERS.items():
        if getattr(request, option):
            from importlib import import_module

            other: type[View] = getattr(import_module(f"kprobe.views.{module}"), name)
            return other(trace, request)
    return Plain(trace, request)


class Plain:
    """The kernel's text, unchanged: as it comes or, with a duration, the buffer at its end."""

    def __init__(self, trace: Trace, request: CommandLine) -> None:
        self.title = ""
        self._trace = trace
        self._has_head = request.headers
        self._is_over = False

    def head(self) -> bytes:
        """Return the column headings, if requested and events come as they fire."""
        return self._trace.header() if self._has_head and self._trace.terms.duration is None else b""

    def read(self, timeout: float) -> bytes:
        """Return the next text; b"" at the end.  Raise `TimeoutError`."""
        if self._trace.terms.duration is None:
            return self._trace.read(timeout)
        if self._is_over:
            return b""
        from kprobe.tracing.trace_file import split_header

        self._trace.wait(timeout)
        self._is_over = True
        header, body = split_header(b"".join(self._trace.chunks()))
        return header + body if self._has_head else body

    def tail(self) -> bytes:
        """Return nothing: all of the text has been read."""
        return b""
