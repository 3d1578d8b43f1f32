"""What can be wrong with a hist trigger: errno and text of each fault, by the kernel's ids.

Source: recorded answers of 6.1 to 7.3 (fixtures/histograms); the ids are those of kernel/trace/trace_events_hist.c.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from enum import Enum

from kprobe_sim.language.primitives.refusal import refuse


class HistFault(Enum):
    """A fault: the errno of the write and the text in error_log.

    An errno of None: the fault is only logged; the write goes on, or ends with the errno of what failed.
    """

    DUPLICATE_VAR = errno.EINVAL, "Variable already defined"
    VAR_NOT_UNIQUE = None, "Variable name not unique, need to use fully qualified name (subsys.event.var) for variable"
    TOO_MANY_VARS = errno.EINVAL, "Too many variables defined"
    MALFORMED_ASSIGNMENT = errno.EINVAL, "Malformed assignment"
    NAMED_MISMATCH = errno.EINVAL, "Named hist trigger doesn't match existing named trigger (includes variables)"
    TRIGGER_EEXIST = errno.EEXIST, "Hist trigger already exists"
    TRIGGER_ENOENT_CLEAR = errno.ENOENT, "Can't clear or continue a nonexistent hist trigger"
    SET_CLOCK_FAIL = None, "Couldn't set trace_clock"
    BAD_FIELD_MODIFIER = errno.EINVAL, "Invalid field modifier"
    TOO_MANY_SUBEXPR = errno.EINVAL, "Too many subexpressions (3 max)"
    TIMESTAMP_MISMATCH = errno.EINVAL, "Timestamp units in expression don't match"
    EVENT_FILE_NOT_FOUND = errno.EINVAL, "Event file not found"
    HIST_NOT_FOUND = errno.EINVAL, "Matching event histogram not found"
    HIST_CREATE_FAIL = None, "Couldn't create histogram for field"
    SYNTH_VAR_NOT_FOUND = errno.EINVAL, "Couldn't find synthetic variable"
    SYNTH_EVENT_NOT_FOUND = errno.EINVAL, "Couldn't find synthetic event"
    SYNTH_TYPE_MISMATCH = errno.EINVAL, "Param type doesn't match synthetic event field type"
    SYNTH_COUNT_MISMATCH = errno.EINVAL, "Param count doesn't match synthetic event field count"
    FIELD_VAR_PARSE_FAIL = None, "Couldn't parse field variable"
    VAR_CREATE_FIND_FAIL = errno.EINVAL, "Couldn't create or find variable"
    ONX_NOT_VAR = errno.EINVAL, "For onmax(x) or onchange(x), x must be a variable"
    ONX_VAR_NOT_FOUND = errno.EINVAL, "Couldn't find onmax or onchange variable"
    FIELD_VAR_CREATE_FAIL = None, "Couldn't create field variable"
    TOO_MANY_PARAMS = errno.EINVAL, "Too many action params"
    PARAM_NOT_FOUND = errno.EINVAL, "Couldn't find param"
    INVALID_PARAM = errno.EINVAL, "Invalid action param"
    ACTION_NOT_FOUND = errno.EINVAL, "No action found"
    TOO_MANY_SAVE_ACTIONS = errno.EEXIST, "Can't have more than one save() action per hist"
    ACTION_MISMATCH = errno.EINVAL, "Handler doesn't support action"
    NO_CLOSING_PAREN = errno.EINVAL, "No closing paren found"
    SUBSYS_NOT_FOUND = errno.EINVAL, "Missing subsystem"
    INVALID_SUBSYS_EVENT = errno.EINVAL, "Invalid subsystem or event name"
    INVALID_REF_KEY = errno.EINVAL, "Using variable references in keys not supported"
    VAR_NOT_FOUND = None, "Couldn't find variable"
    FIELD_NOT_FOUND = errno.EINVAL, "Couldn't find field"
    EMPTY_ASSIGNMENT = errno.EINVAL, "Empty assignment"
    INVALID_SORT_MODIFIER = errno.EINVAL, "Invalid sort modifier"
    EMPTY_SORT_FIELD = errno.EINVAL, "Empty sort field"
    TOO_MANY_SORT_FIELDS = errno.EINVAL, "Too many sort fields (Max = 2)"
    INVALID_SORT_FIELD = errno.EINVAL, "Sort field must be a key or a val"
    INVALID_STR_OPERAND = errno.EINVAL, "String type can not be an operand in expression"
    EXPECT_NUMBER = errno.EINVAL, "Expecting numeric literal"
    UNARY_MINUS_SUBEXPR = errno.EINVAL, "Unary minus not supported in sub-expressions"
    DIVISION_BY_ZERO = errno.EDOM, "Division by zero"
    NEED_NOHC_VAL = errno.ENOENT, "Non-hitcount value is required for 'nohitcount'"

    def __init__(self, number: int | None, text: str) -> None:
        self.errno = number
        self.text = text


# what kernels before 5.10 refuse without a word
NEWER = frozenset(
    (
        HistFault.EMPTY_ASSIGNMENT,
        HistFault.INVALID_SORT_MODIFIER,
        HistFault.EMPTY_SORT_FIELD,
        HistFault.TOO_MANY_SORT_FIELDS,
        HistFault.INVALID_SORT_FIELD,
    )
)
Complain = Callable[[HistFault, str], None]  # (fault, the text that the caret goes to; "" for the start)


def refused(complain: Complain, fault: HistFault, word: str = "") -> OSError:
    """Log a fault; return the error to raise."""
    complain(fault, word)
    assert fault.errno is not None, fault
    return refuse(fault.errno)
