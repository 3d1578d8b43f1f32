"""Why a filter is refused, and how the kernel shows it: errno, error_log and the text of the `filter` file.

The texts are those of the kernel (kernel/trace/trace_events_filter.c, ERRORS), checked by fixtures/filters.
"""

from __future__ import annotations

import os
from enum import Enum

LOG_LOCATION = "event filter parse error"


class Fault(Enum):
    """What is wrong with a filter, in the kernel's words."""

    INVALID_OP = "Invalid operator"
    TOO_MANY_OPEN = "Too many '('"
    TOO_MANY_CLOSE = "Too few '('"
    MISSING_QUOTE = "Missing matching quote"
    MISSING_BRACE_OPEN = "Missing '{'"
    MISSING_BRACE_CLOSE = "Missing '}'"
    OPERAND_TOO_LONG = "Operand too long"
    EXPECT_STRING = "Expecting string field"
    EXPECT_DIGIT = "Expecting numeric field"
    ILLEGAL_FIELD_OP = "Illegal operation for field type"
    FIELD_NOT_FOUND = "Field not found"
    ILLEGAL_INTVAL = "Illegal integer value"
    BAD_SUBSYS_FILTER = "Couldn't find or set field in one of a subsystem's events"
    TOO_MANY_PREDS = "Too many terms in predicate expression"
    INVALID_FILTER = "Meaningless filter expression"
    INVALID_CPULIST = "Invalid cpulist"
    INVALID_VALUE = "Invalid value (did you forget quotes)?"
    NO_FUNCTION = "Function not found"
    NO_FILTER = "No filter found"


class FilterRefused(OSError):
    """The kernel refuses a filter.

    `errno` is what write(2) gives, `fault` what is wrong (None: the kernel has no words for it, "Error"), `position`
    the kernel's own, `command` the stored text (latin-1: one character is one byte).
    """

    errno: int

    def __init__(self, number: int, fault: Fault | None, position: int, command: str, space: int) -> None:
        super().__init__(number, os.strerror(number))
        self.fault = fault
        self.position = position if fault else 0
        self.command = command
        self._space = space

    @property
    def message(self) -> str | None:
        """The kernel's text, None where it has none."""
        return self.fault.value if self.fault else None

    @property
    def log_message(self) -> str:
        """The text that error_log shows after `LOG_LOCATION`."""
        return self.fault.value if self.fault else "Error"

    @property
    def log_position(self) -> int:
        """The caret's column within the command in error_log; may lie one or two after its end."""
        return self.position

    @property
    def readback(self) -> bytes:
        """What the `filter` file shows after the refusal."""
        if self.fault is None:
            parts = [self.command, "\nError: (0)\n"]
        else:
            column = min(self.position, len(self.command))
            parts = [self.command, f"\n{' ' * column}^", f"\nparse_error: {self.fault.value}\n"]
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
