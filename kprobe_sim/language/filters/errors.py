"""Why a filter is refused, and how the kernel shows it: errno, error_log and the text of the `filter` file.

The texts are those of the kernel (kernel/trace/trace_events_filter.c, ERRORS), checked by fixtures/filters.
"""

from __future__ import annotations

import errno
import os
from enum import Enum

LOG_LOCATION = "event filter parse error"


class Fault(Enum):
    """What is wrong with a filter: the errno of the write, and the kernel's text (None if it has none)."""

    INVALID_OP = errno.EINVAL, "Invalid operator"
    TOO_MANY_OPEN = errno.ENOENT, "Too many '('"
    TOO_MANY_OPEN_LATE = errno.EPERM, "Too many '('"  # all were paired, but a function's name may have eaten one
    TOO_MANY_CLOSE = errno.EPERM, "Too few '('"
    MISSING_QUOTE = errno.EINVAL, "Missing matching quote"
    MISSING_QUOTE_EARLY = errno.ESRCH, "Missing matching quote"  # when quotes are paired, before all else
    MISSING_BRACE_OPEN = errno.EINVAL, "Missing '{'"
    MISSING_BRACE_CLOSE = errno.EINVAL, "Missing '}'"
    OPERAND_TOO_LONG = errno.EINVAL, "Operand too long"
    EXPECT_STRING = errno.EINVAL, "Expecting string field"
    EXPECT_DIGIT = errno.EINVAL, "Expecting numeric field"
    ILLEGAL_FIELD_OP = errno.EINVAL, "Illegal operation for field type"
    FIELD_NOT_FOUND = errno.EINVAL, "Field not found"
    ILLEGAL_INTVAL = errno.EINVAL, "Illegal integer value"
    BAD_SUBSYS_FILTER = errno.EINVAL, "Couldn't find or set field in one of a subsystem's events"
    TOO_MANY_PREDS = errno.EPERM, "Too many terms in predicate expression"
    INVALID_FILTER = errno.EINVAL, "Meaningless filter expression"
    INVALID_CPULIST = errno.EINVAL, "Invalid cpulist"
    INVALID_VALUE = errno.EINVAL, "Invalid value (did you forget quotes)?"
    UNBALANCED = errno.EINVAL, "Unbalanced parens"  # this and the next three before 4.17
    TOO_MANY_OPERANDS = errno.EINVAL, "Too many operands"
    NO_OPERAND = errno.EINVAL, "Missing field name and/or value"
    ILLEGAL_NOT = errno.EINVAL, "Illegal use of '!'"
    NO_FUNCTION = errno.EINVAL, "Function not found"
    NO_FILTER = errno.EINVAL, "No filter found"
    NO_FIELD = errno.EPERM, None  # a term that starts with no name
    NO_PROGRAM = errno.EINVAL, None  # no term at all, or what an old kernel makes of the terms is broken

    def __init__(self, number: int, text: str | None) -> None:
        self.errno = number
        self.text = text


class FilterRefused(OSError):
    """The kernel refuses a filter.

    `fault` is what is wrong, `position` the kernel's own, `command` the stored text (latin-1: a character is a byte).
    """

    errno: int

    def __init__(self, fault: Fault, position: int, command: str, space: int) -> None:
        super().__init__(fault.errno, os.strerror(fault.errno))
        self.fault = fault
        self.position = position
        self.command = command
        self._space = space

    @property
    def message(self) -> str | None:
        """The kernel's text, None where it has none."""
        return self.fault.text

    @property
    def log_message(self) -> str:
        """The text that error_log shows after `LOG_LOCATION`."""
        return self.fault.text or "Error"

    @property
    def log_position(self) -> int:
        """The caret's column within the command in error_log; may lie one or two after its end."""
        return self.position

    @property
    def readback(self) -> bytes:
        """What the `filter` file shows after the refusal."""
        if self.fault.text is None:
            parts = [self.command, "\nError: (0)\n"]
        else:
            column = min(self.position, len(self.command))
            parts = [self.command, f"\n{' ' * column}^", f"\nparse_error: {self.fault.text}\n"]
        return shown(_fitting(parts, self._space), self._space)


def _fitting(parts: list[str], space: int) -> str:
    # A part that doesn't fit is left out, with all that follow (trace_seq); printf, but not puts, needs one byte more.
    text = ""
    for index, part in enumerate(parts):
        if len(text) + len(part) + (index > 0) > space:
            break
        text += part
    return text


def shown(text: str, space: int) -> bytes:
    """Return what the `filter` file shows for a stored text: nothing when text and newline don't fit `space` bytes."""
    line = f"{text}\n".encode("latin-1")
    return line if len(line) < space else b""
