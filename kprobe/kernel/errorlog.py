"""The kernel's words about a refused command: from error_log, else the kernel's log, or a refused filter's file.

Source of the layout: kernel 6.1, Documentation/trace/ftrace.rst (error_log), and recorded answers of 5.10 to 7.2.
"""

from __future__ import annotations

from kprobe.tracefs.capabilities import Capabilities

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kprobe.tracefs.tracefs import Tracefs

LEAD = "  Command: "
MARK = ": error: "
AT_MOST = 4  # lines of the kernel's log: the most that a refusal was seen to print is three


class LoggedError:
    """One record of error_log; `column` is the caret's, from the start of `command`."""

    __slots__ = ("column", "command", "source", "text", "time")

    def __init__(self, time: str, source: str, text: str, command: str, column: int) -> None:
        self.time = time
        self.source = source
        self.text = text
        self.command = command
        self.column = column

    def _key(self) -> tuple[str, str, str, str, int]:
        return (self.time, self.source, self.text, self.command, self.column)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LoggedError) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"LoggedError{self._key()!r}"


def parse_error_log(data: bytes) -> list[LoggedError]:
    """Return the records of error_log, oldest first; what isn't a record is skipped."""
    entries: list[LoggedError] = []
    head: tuple[str, str, str] | None = None
    command: list[str] = []
    for line in data.decode(errors="replace").split("\n"):
        start = _head(line)
        if start is not None:
            head, command = start, []
        elif head is None:
            continue
        elif not command:
            if line.startswith(LEAD):
                text, column = _cut(line[len(LEAD) :])
                command = [text]
                if column is not None:
                    entries.append(LoggedError(*head, text, column))
                    head = None
        elif line.endswith("^") and not line[:-1].strip(" "):
            entries.append(LoggedError(*head, "\n".join(command), len(line) - 1 - len(LEAD)))
            head = None
        else:
            command.append(line)
    return entries


def _head(line: str) -> tuple[str, str, str] | None:
    """Split "[  12.345678] trace_kprobe: error: Text" into time, source and text."""
    if not line.startswith("[") or "] " not in line or MARK not in line:
        return None
    time, _, rest = line[1:].partition("] ")
    source, _, text = rest.partition(MARK)
    return time.strip(), source, text


def _cut(text: str) -> tuple[str, int | None]:
    """Remove the caret from a command that 5.10 cut short, newline included; else None for the column."""
    blanks = text[:-1]
    if text.endswith("^") and len(blanks) - len(blanks.rstrip(" ")) >= len(LEAD):
        command = blanks.rstrip(" ")
        return command, len(blanks) - len(command) - len(LEAD)
    return text, None


def normal(command: str) -> str:
    """Return a probe command as error_log repeats it: words joined with one blank, the comment cut."""
    return " ".join(command.partition("#")[0].split())


def explain(before: bytes, after: bytes, command: str) -> LoggedError | None:
    """Return the newest record about `command` that is in `after` but not in `before`."""
    known = set(parse_error_log(before))
    wanted = (normal(command), command.strip())
    for entry in reversed(parse_error_log(after)):
        shown = entry.command.strip()
        is_cut = len(shown) > 200 and any(text.startswith(shown) for text in wanted)  # by 5.10, see _cut
        if entry not in known and (shown in wanted or is_cut):
            return entry
    return None


class KernelMessages:
    """The kernel's messages about later writes.

    `before` is error_log as it is now.  Where there is none (before Linux 5.2), refusals are in the kernel's log.
    """

    __slots__ = ("_lines", "_tracefs", "before")

    def __init__(self, tracefs: Tracefs) -> None:
        self._tracefs = tracefs
        self._lines: Callable[[], list[str]] = list
        self.before = b""
        try:
            self.before = tracefs.read("error_log")
        except OSError:
            follow = Capabilities(tracefs).kernel_log
            if follow is not None:
                self._lines = follow()

    def explain(self, command: str) -> LoggedError | None:
        """Return the newest record of error_log about `command`."""
        return explain(self.before, read_log(self._tracefs), command)

    def lines(self) -> list[str]:
        """Return the last new lines of the kernel's log; none if there is an error_log, or the log can't be read."""
        return self._lines()[-AT_MOST:]


def read_log(tracefs: Tracefs, path: str = "error_log") -> bytes:
    """Return error_log, b"" where there is none (before Linux 5.2) or it can't be read."""
    try:
        return tracefs.read(path)
    except OSError:
        return b""


def parse_filter_error(data: bytes) -> tuple[str, int | None]:
    """Return (message, caret column) of a filter file that holds a refused filter; ("", None) if it holds none."""
    lines = data.decode(errors="replace").rstrip("\n").split("\n")
    name, _, message = lines[-1].partition(": ")
    if name != "parse_error":
        return "", None
    above = lines[-2] if len(lines) > 1 else ""
    is_caret = above.endswith("^") and not above[:-1].strip(" ")
    return message, len(above) - 1 if is_caret else None
