"""The fields of a hist trigger as kernels before 5.10 read them: sums and differences, split at the first sign.

Source: contains_operator(), parse_expr() and parse_unary() in kernel/trace/trace_events_hist.c of 5.4.273.
"""

from __future__ import annotations

import errno

from kprobe_sim.events.hist.expression import ExpressionReader
from kprobe_sim.events.hist.fault import HistFault, refused
from kprobe_sim.events.hist.field import EXPRESSION, STRING, TIMESTAMP, USECS, HistField
from kprobe_sim.language.primitives.refusal import refuse

_MOST_LEVELS = 3
_OFFSET = ".sym-offset"


class EarlyExpressionReader(ExpressionReader):
    """Reads the expressions of one trigger: `a-b-c` is a-(b-c), and there are no numbers."""

    has_numbers = False
    value_modifiers = ()

    def operator_of(self, text: str) -> tuple[str, int]:
        """Return the first operator, and its position; "" if there is none."""
        position = next((position for position, letter in enumerate(text) if letter in "+-"), -1)
        if position >= 4 and text.startswith(_OFFSET, position - 4) and self._data.gates.hist_sym_offset:
            position = -1
        if position < 0:
            return "", -1
        return ("-()", 0) if text.startswith("-") else (text[position], position)

    def _expression(self, text: str, flags: int, variable: str, start_of: str = "") -> HistField:
        return self._level(text, flags, variable, start_of, 0)

    def _level(self, text: str, flags: int, variable: str, start_of: str, level: int) -> HistField:
        if level > _MOST_LEVELS:
            raise refused(self._complain, HistFault.TOO_MANY_SUBEXPR, text)
        operator, position = self.operator_of(text)
        if not operator:
            return self._only(text, flags, variable, start_of)
        if operator == "-()":
            return self._negated_level(text, flags, variable, level + 1)
        left, right = text[:position], text[position + 1 :]
        if start_of:
            self._assignments[start_of] = left
        first = self._no_string(self.atom(left, 0), left)
        second = self._no_string(self._level(right, 0, "", "", level + 1), self._cut(right))
        if self._meant(first).flags & USECS != self._meant(second).flags & USECS:
            raise refused(self._complain, HistFault.TIMESTAMP_MISMATCH, "")
        first.read_once = second.read_once = True
        flags |= EXPRESSION | first.flags & (TIMESTAMP | USECS)
        return self._unsigned(self._built(operator, [first, second], flags, variable))

    def _negated_level(self, text: str, flags: int, variable: str, level: int) -> HistField:
        if level > _MOST_LEVELS:
            raise refused(self._complain, HistFault.TOO_MANY_SUBEXPR, text)
        inner, closed, _ = text[2:].rpartition(")")  # what follows doesn't count
        if "(" not in text or not closed:
            raise refuse(errno.EINVAL)
        operand = self._no_string(self._level(inner, 0, "", "", level + 1), self._cut(inner))
        flags |= EXPRESSION | operand.flags & (TIMESTAMP | USECS)
        return self._unsigned(self._built("-()", [operand], flags, variable))

    def _no_string(self, operand: HistField, text: str) -> HistField:
        if operand.flags & STRING:
            raise refused(self._complain, HistFault.INVALID_STR_OPERAND, text)
        return operand

    @staticmethod
    def _unsigned(field: HistField) -> HistField:
        field.signed = False
        return field

    def _cut(self, text: str) -> str:
        """Return what the kernel's split leaves of an expression."""
        operator, position = self.operator_of(text)
        if operator not in ("", "-()"):
            return text[:position]
        return text if operator or text.count(".") < 2 else text.partition(".")[0]
