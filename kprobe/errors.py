"""The errors that this package raises, as one small tree.

KprobeError
 +-- DefinitionError     the text cannot mean a probe              .text .column .hint
 +-- UnknownBackend      no such kind of tracefs                   .name .known
 +-- TracefsMissing      this machine shows no tracefs             .looked_at
 +-- NotPermitted        it is there, but not for us               .path .errno .hint
 +-- NoSuchProcess       -p or -L names nobody                     .pid
 +-- NoSuchField         no event that is traced has that field    .name .fields
 +-- Refused             the kernel said no to a write             .path .command .errno .says .column .hint
 |    +-- UnknownSymbol      no function of that name (ENOENT; EINVAL from 6.12)
 |    +-- AmbiguousSymbol    several of that name (EADDRNOTAVAIL; EINVAL from 6.12)
 |    +-- NotABoundary       no instruction starts there (EILSEQ)
 |    +-- AlreadyExists      an event of that group and name is there (EEXIST)
 |    +-- FilterRefused      the filter, not the probe
 |    +-- Busy               somebody is using it (EBUSY)
 +-- Unsupported         this kernel lacks what was asked for      .feature .evidence .hint
 +-- UndoFailed          the trace is over, but something of it is left behind   .failures
 +-- WaitedTooLong       a test waited for a trace, and nobody ended it          .seconds .facts
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

DMESG = "dmesg"  # the source of messages that only the kernel's log has


class KprobeError(Exception):
    """Base of the errors that this package raises."""


class DefinitionError(KprobeError, ValueError):
    """The text cannot mean a probe; `column` counts characters of `text` from 0.  `hint` is a likely meaning."""

    def __init__(self, message: str, text: str, column: int, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.text = text
        self.column = column
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{caret(self.text, self.column)}{_hint(self.hint)}"


class UnknownBackend(KprobeError):
    """No backend of that name is installed; `known` lists those that are."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        hint = ""
        if name[:1].isdigit():  # a kernel's release
            hint = " or ".join(f"{one}:{name}" for one in known if one in ("sim", "vm"))
        super().__init__(f"no tracefs backend {name!r}; known: {', '.join(known)}{_hint(hint and f'--tracefs {hint}')}")
        self.name = name
        self.known = tuple(known)


class TracefsMissing(KprobeError):
    """No tracefs was found; `looked_at` is a tuple of (path, what was found there)."""

    def __init__(self, looked_at: Sequence[tuple[str, str]], hint: str = "") -> None:
        places = "".join(f"\n  {place}: {found}" for place, found in looked_at)
        super().__init__(f"no tracefs found. Looked at:{places}{_hint(hint)}")
        self.looked_at = tuple(looked_at)
        self.hint = hint


class NotPermitted(KprobeError):
    """The kernel denies something to this process (EACCES, EPERM, EROFS)."""

    def __init__(self, path: str, number: int, hint: str = "") -> None:
        super().__init__(f"{path}: {os.strerror(number)}{_hint(hint)}")
        self.path = path
        self.errno = number
        self.hint = hint


class NoSuchProcess(KprobeError):
    """There is no process or thread of that id on the traced machine."""

    def __init__(self, pid: int, kind: str = "process") -> None:
        super().__init__(f"no {kind} {pid}")
        self.pid = pid


class NoSuchField(KprobeError):
    """None of the events has a field of that name; `fields` are those that they have."""

    def __init__(self, name: str, fields: Sequence[str], words: Sequence[str] = ()) -> None:
        has = f"their fields are {', '.join(fields)}" if fields else "they have no fields but the kernel's own"
        more = f"; {', '.join(words)} need none" if words else ""
        super().__init__(f"no traced event has a field {name!r}: {has}{more}")
        self.name = name
        self.fields = tuple(fields)


class Refused(KprobeError):
    """The kernel refused a write.

    `path` is the file, `command` what was written, `errno` the kernel's number.  `says` is the kernel's message for
    this very command, "" if it gave none, and `source` the part of the kernel that it is from; without an error_log
    these are the lines added to the kernel's log meanwhile, and "dmesg".  `column` is its caret: an offset into
    `shown`, the command as the kernel repeats it; None if it gave none.  `hint` is ours.
    """

    def __init__(
        self,
        path: str,
        command: str,
        number: int,
        *,
        says: str = "",
        source: str = "",
        shown: str = "",
        column: int | None = None,
        hint: str = "",
    ) -> None:
        self.path = path
        self.command = command
        self.errno = number
        self.says = says
        self.source = source
        self.shown = shown or command
        self.column = column
        self.hint = hint
        super().__init__(self._text())

    def _text(self) -> str:
        name = errno.errorcode.get(self.errno, str(self.errno))
        what = f"refused {self.command!r}" if self.command else "refused"
        text = f"{self.path} {what}: {os.strerror(self.errno)} ({name})"
        if self.source == DMESG:
            text += "".join(f"\n{DMESG}: {line}" for line in self.says.split("\n"))
        elif self.says:
            text += f"\n{self.source}: error: {self.says}" if self.source else f"\n{self.says}"
        if self.column is not None:
            text += "\n" + caret(self.shown, self.column, "  Command: ")
        return text + _hint(self.hint)


class UnknownSymbol(Refused):
    """The kernel has no function of that name."""


class AmbiguousSymbol(Refused):
    """The kernel has several functions of that name."""


class NotABoundary(Refused):
    """No instruction starts at that offset."""


class AlreadyExists(Refused):
    """An event of that group and name exists; it is left alone."""


class FilterRefused(Refused):
    """The kernel did not take the filter."""


class Busy(Refused):
    """Somebody else is using it; for trace_pipe: another reader."""


class Unsupported(KprobeError):
    """This kernel lacks the feature; `evidence` says where that was seen, `hint` what does the same."""

    def __init__(self, feature: str, evidence: str, hint: str = "") -> None:
        super().__init__(f"this kernel has no {feature} ({evidence}){_hint(hint)}")
        self.feature = feature
        self.evidence = evidence
        self.hint = hint


class UndoFailed(KprobeError):
    """The trace is over, but the named steps of tidying up failed; `failures` is a tuple of (step, error).

    A note on such an error is the command that does the step by hand; run them in this order.
    """

    def __init__(self, failures: Sequence[tuple[str, BaseException]]) -> None:
        steps = ""
        for step, error in failures:
            notes = "".join(f"\n    {note}" for note in getattr(error, "__notes__", ()))
            steps += f"\n  {step}: {str(error) or type(error).__name__}{notes}"
        super().__init__(f"left behind, because undoing it failed:{steps}")
        self.failures = tuple(failures)


class WaitedTooLong(KprobeError):
    """A test waited for a trace that nobody stopped; `facts` is a tuple of (what, its state) about the trace."""

    def __init__(self, seconds: float, facts: Sequence[tuple[str, str]]) -> None:
        width = max((len(what) for what, _ in facts), default=0)
        lines = "".join(f"\n  {what:{width}}  {how}" for what, how in facts)
        super().__init__(
            f"waited {seconds:.3g} s in all for a trace, which nobody stopped:{lines}\n"
            "hint: trace.stop() ends it, as does a duration; kprobe_timeout says how many seconds a test may wait"
        )
        self.seconds = seconds
        self.facts = tuple(facts)


def caret(text: str, column: int, lead: str = "  ") -> str:
    """Return `text` and, on a second line, a caret below `column`; a newline in the text is shown as \\n."""
    before, rest = (part.replace("\n", "\\n") for part in (text[:column], text[column:]))
    blank = "".join("\t" if char == "\t" else " " for char in lead + before)
    return f"{lead}{before}{rest}\n{blank}{' ' * (column - len(text))}^"


def _hint(hint: str) -> str:
    return f"\nhint: {hint}" if hint else ""
