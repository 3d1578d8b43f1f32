"""Event filters: compile the text of a `filter` file, or refuse it as the kernel does, and match records.

    EXPR := TERM (&& | ||) TERM ...      TERM := !* ( "(" EXPR ")" | FIELD OP VALUE )

&& binds tighter than ||.  Source: calc_stack() and predicate_parse() in kernel/trace/trace_events_filter.c of 6.1 and
6.12: errors and positions are theirs, the compiled form isn't.  Held to fixtures/filters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from kprobe_sim.builds.gates import FilterGates
from kprobe_sim.language.filters.comparison import ReadString, Test
from kprobe_sim.language.filters.early_predicate import compile_early
from kprobe_sim.language.filters.errors import Fault, FilterRefused
from kprobe_sim.language.filters.predicate_term import FilterContext, FunctionRange, TermError, read_term
from kprobe_sim.records.field import COMMON_FIELDS, Field

__all__ = ["FilterGates", "FilterRefused", "Predicate", "compile_filter", "is_clearing", "stored_text"]

_BLANK = "\t\n\v\f\r \xa0"  # the kernel's isspace()
_BRACKETS = re.compile("[()]|'[^']*'?|\"[^\"]*\"?")
_NOT_BLANK = re.compile(f"[^{_BLANK}]")
_SOME_TERM = re.compile(f"[^{_BLANK}()]")

_TRUE, _FALSE = 1, 0  # the exits of a step, as indexes
# A step of the program: [where to go if the test fails, where if it holds, the test].  After the last step is
# "accept", after that "reject".
_Step = tuple[list[int], Test]
_Exits = list[tuple[int, int]]  # (step, _TRUE or _FALSE): to be patched once their target is known


class Predicate:
    """A compiled filter of one event."""

    __slots__ = ("_first", "_steps", "text")

    def __init__(self, text: str, steps: Sequence[tuple[Test, int, int]]) -> None:
        self.text: Final = text  # latin-1
        self._steps = tuple(steps)
        # Most filters are one plain term: its test is the whole program.
        self._first = self._steps[0][0] if len(self._steps) == 1 and self._steps[0][2] == 1 else None

    def match(self, record: bytes, *, cpu: int, comm: bytes) -> bool:
        """Return True if the record, of a task called `comm` on `cpu`, passes.

        `record` is the entire ring-buffer entry, at least as long as the event's fixed part; `comm` has no padding.
        """
        if self._first is not None:
            return self._first(record, cpu, comm)
        steps = self._steps
        step, end = 0, len(steps)
        while step < end:
            test, if_false, if_true = steps[step]
            step = if_true if test(record, cpu, comm) else if_false
        return step == end

    def __repr__(self) -> str:
        return f"Predicate({self.text!r})"


def stored_text(data: str | bytes) -> str:
    """Return the text that the kernel keeps of a write: up to the first NUL, without trailing blanks (latin-1).

    A `str` is encoded as UTF-8, as a shell would write it.
    """
    text = (data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data).decode("latin-1")
    return text.partition("\0")[0].rstrip(_BLANK)


def is_clearing(data: str | bytes) -> bool:
    """Return True for a text that removes the filter: "0", with or without blanks around it."""
    return stored_text(data).lstrip(_BLANK) == "0"


def compile_filter(
    text: str | bytes,
    fields: Sequence[Field],
    *,
    gates: FilterGates,
    cpus: int = 1,
    function_range: FunctionRange | None = None,
    read_string: ReadString | None = None,
) -> Predicate:
    """Compile a filter for an event with these fields, besides the common and generic ones.

    `cpus` is the number of possible CPUs (for CPUS{...}); `function_range` finds a function by name or address (for
    .function); `read_string` reads what a `char *` field points to.  Raises FilterRefused.
    """
    stored = stored_text(text)
    known = {field.name: field for field in (*COMMON_FIELDS, *fields)}
    context = FilterContext(gates, cpus, function_range, read_string)
    try:
        if gates.early_filters:
            return Predicate(stored, [(compile_early(stored, known, context), 2, 1)])
        _check_brackets(stored)
        return Predicate(stored, _Reader(stored, known, context).program())
    except TermError as error:
        raise FilterRefused(error.fault, error.position, stored, gates.message_space) from None


def _check_brackets(text: str) -> None:
    """Pair quotes and parentheses before anything else is read (calc_stack)."""
    open_: list[int] = []
    unclosed: int | None = None
    for match in _BRACKETS.finditer(text):
        token = match.group()
        if token == "(":
            open_.append(match.start())
        elif token == ")":
            if not open_:
                raise TermError(Fault.TOO_MANY_CLOSE, match.start())
            open_.pop()
        elif len(token) == 1 or token[0] != token[-1]:
            unclosed = match.start()
    if unclosed is not None:
        raise TermError(Fault.MISSING_QUOTE_EARLY, unclosed)
    if open_:
        raise TermError(Fault.TOO_MANY_OPEN, open_[-1])
    if not _SOME_TERM.search(text):
        raise TermError(Fault.NO_PROGRAM)


class _Group:
    """An open parenthesis, or the entire expression: exits that wait for their target."""

    __slots__ = ("accepted", "negated", "operator", "refused", "waiting")

    def __init__(self, negated: bool) -> None:
        self.negated = negated  # an odd number of ! before the parenthesis
        self.accepted: _Exits = []  # of the alternatives left of ||
        self.refused: _Exits = []  # of the terms left of && in this alternative
        self.operator = ""  # what follows the operand that waits
        self.waiting: tuple[_Exits, _Exits] = ([], [])  # the exits (true, false) of the operand left of `operator`


class _Reader:
    """Reads an expression once and emits its tests in order, each with a target for true and one for false."""

    __slots__ = ("_context", "_fields", "_groups", "_steps", "_text")

    def __init__(self, text: str, fields: dict[str, Field], context: FilterContext) -> None:
        self._text = text
        self._fields = fields
        self._context = context
        self._steps: list[_Step] = []
        self._groups = [_Group(False)]

    def program(self) -> list[tuple[Test, int, int]]:
        """Return (test, next step if false, next step if true) per term."""
        text, position, negated = self._text, 0, False
        while (start := _NOT_BLANK.search(text, position)) is not None:
            position = start.start()
            sign = text[position]
            if sign == "(":
                self._join(self._groups[-1])
                self._groups.append(_Group(negated))
                position, negated = position + 1, False
            elif sign == "!" and text[position + 1 : position + 2] not in ("=", "~"):
                position, negated = position + 1, not negated
            else:
                self._join(self._groups[-1])
                term = read_term(text, position, self._fields, self._context)
                here = len(self._steps)
                self._steps.append(([-1, -1], term.test))
                operand = _negate([(here, _TRUE)], [(here, _FALSE)], negated)
                position, negated = self._follow(term.end, operand), False
        return self._finish()

    def _follow(self, position: int, operand: tuple[_Exits, _Exits]) -> int:
        """Read what may follow a term: closing parentheses, then && or || or the end.  Return where to go on."""
        text = self._text
        while (match := _NOT_BLANK.search(text, position)) is not None:
            position = match.start()
            if text[position] == ")":
                if len(self._groups) == 1:  # they were paired, but a function's name may have eaten one
                    raise TermError(Fault.TOO_MANY_CLOSE, position + 1)
                group = self._groups.pop()
                operand = _negate(group.accepted + operand[0], group.refused + operand[1], group.negated)
                position += 1
                continue
            if text[position : position + 2] not in ("&&", "||"):
                raise TermError(Fault.TOO_MANY_PREDS, position)
            self._groups[-1].operator, self._groups[-1].waiting = text[position : position + 2], operand
            return position + 2
        self._groups[-1].operator, self._groups[-1].waiting = "", operand
        return len(text)

    def _join(self, group: _Group) -> None:
        """Let the operand before an operator lead to the term after it."""
        true, false = group.waiting
        if group.operator == "&&":
            self._patch(true)
            group.refused += false
        elif group.operator == "||":
            self._patch(group.refused + false)
            group.accepted += true
            group.refused = []

    def _patch(self, exits: _Exits) -> None:
        for step, exit_ in exits:
            self._steps[step][0][exit_] = len(self._steps)

    def _finish(self) -> list[tuple[Test, int, int]]:
        group, end = self._groups[0], len(self._text)
        if not self._steps:
            raise TermError(Fault.NO_FILTER, end)
        if len(self._groups) > 1:
            raise TermError(Fault.TOO_MANY_OPEN_LATE, end + 1)
        if group.operator:
            if self._context.gates.incomplete_refused:
                raise TermError(Fault.INVALID_FILTER, end)
            if group.operator == "&&" and group.accepted:
                # The old kernels leave the last || unlinked here, and refuse their broken program without a text.
                raise TermError(Fault.NO_PROGRAM)
        true, false = group.waiting
        self._patch(group.accepted + true)  # accept: the target after the last step
        reject = len(self._steps) + 1
        for step, exit_ in group.refused + false:
            self._steps[step][0][exit_] = reject
        return [(test, targets[_FALSE], targets[_TRUE]) for targets, test in self._steps]


def _negate(true: _Exits, false: _Exits, negated: bool) -> tuple[_Exits, _Exits]:
    return (false, true) if negated else (true, false)
