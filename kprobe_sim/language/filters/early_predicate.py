"""Event filters as kernels before 4.17 read them: operators of several ranks, turned into reverse Polish notation.

Blanks outside quotes don't count, quotes only keep together what is between them, and whatever isn't an operator
belongs to an operand.  A fault has no position: the caret is below the first character.
Source: filter_parse() and replace_preds() in kernel/trace/trace_events_filter.c of 3.2, 3.13 and 4.4; fixtures/filters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kprobe_sim.language.filters.comparison import Kind, Test, cpu_number_test, kind_of, number_test, string_test
from kprobe_sim.language.filters.errors import Fault
from kprobe_sim.language.filters.predicate_term import FilterContext, TermError, generic_field
from kprobe_sim.language.primitives.glob import Matcher, compile_pattern
from kprobe_sim.language.primitives.kstrto import kstrtol, kstrtoul
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.records.field import Field

_RANKS = {"||": 1, "&&": 2, "~": 4, "!=": 4, "==": 4, "<": 5, "<=": 5, ">": 5, ">=": 5, "&": 6, "!": 6, "(": 0}
_BLANK = "\t\n\v\f\r \xa0"
_MAX_TEXT = 256  # MAX_FILTER_STR_VAL, with the final NUL


class _Operator(str):
    """An operator in reverse Polish notation; operands are plain text."""

    __slots__ = ()


class _Reversal:
    """Turns a filter into reverse Polish notation (filter_parse())."""

    def __init__(self, text: str, operators: Sequence[str]) -> None:
        self._text = text
        self._operators = operators
        self._starts = {operator[0] for operator in operators}
        self._stack: list[str] = []
        self._operand = ""
        self._out: list[str] = []

    def read(self) -> list[str]:
        """Return operands and operators; raise TermError."""
        text, position, quoted = self._text, 0, False
        while position < len(text):
            sign = text[position]
            position += 1
            if sign == '"':
                quoted = not quoted
            elif not quoted and sign in _BLANK:
                pass
            elif not quoted and sign in self._starts:
                position += self._push(text[position - 1 : position + 1]) - 1
            elif not quoted and sign == "(":
                self._stack.append(sign)
            elif not quoted and sign == ")":
                self._close()
            else:
                if len(self._operand) == _MAX_TEXT - 1:
                    raise TermError(Fault.OPERAND_TOO_LONG)
                self._operand += sign
        self._end_operand()
        while self._stack:
            if (operator := self._stack.pop()) == "(":
                raise TermError(Fault.UNBALANCED)
            self._out.append(_Operator(operator))
        return self._out

    def _push(self, pair: str) -> int:
        """Push the operator at the start of two characters; return its length."""
        operator = pair if pair in self._operators else pair[0]
        if operator not in self._operators:
            raise TermError(Fault.INVALID_OP)
        self._end_operand()
        while self._stack and _RANKS[self._stack[-1]] >= _RANKS[operator]:
            self._out.append(_Operator(self._stack.pop()))
        self._stack.append(operator)
        return len(operator)

    def _close(self) -> None:
        self._end_operand()
        while self._stack:
            if (operator := self._stack.pop()) == "(":
                return
            self._out.append(_Operator(operator))
        raise TermError(Fault.UNBALANCED)

    def _end_operand(self) -> None:
        if self._operand:
            self._out.append(self._operand)
            self._operand = ""


def _check(words: Sequence[str], *, counted: bool) -> None:
    """Raise TermError for a meaningless filter; `counted`: the kernel counts operands, too (check_preds())."""
    balance, terms, joints = 0, 0, 0
    for word in words:
        if not isinstance(word, _Operator):
            balance += 1
        elif word in ("&&", "||"):
            joints += 1
            balance -= 1
        else:
            terms += 1
            balance -= word != "!"
            if balance < 0:
                break
    if not terms or joints >= terms or (counted and balance != 1):
        raise TermError(Fault.INVALID_FILTER)


def compile_early(text: str, fields: Mapping[str, Field], context: FilterContext) -> Test:
    """Compile a filter; raise TermError."""
    gates = context.gates
    unknown = {"(", *([] if gates.negation else ["!"]), *([] if gates.bits else ["&"])}
    operators = [operator for operator in _RANKS if operator not in unknown]
    words = _Reversal(text, operators).read()
    _check(words, counted=gates.negation)
    tests: list[Test] = []
    operands: list[str] = []
    for word in words:
        if not isinstance(word, _Operator):
            if len(operands) == 2:
                raise TermError(Fault.TOO_MANY_OPERANDS)
            operands.append(word)
        elif word == "!":
            if operands or not tests:
                raise TermError(Fault.ILLEGAL_NOT)
            tests.append(_not(tests.pop()))
        elif word in ("&&", "||"):
            if len(tests) < 2:
                raise TermError(Fault.INVALID_FILTER)
            right, left = tests.pop(), tests.pop()
            tests.append(_both(left, right) if word == "&&" else _either(left, right))
            operands = []
        else:
            if len(operands) < 2:
                raise TermError(Fault.NO_OPERAND)
            tests.append(_term(operands[0], word, operands[1], fields, context))
            operands = []
    return tests[-1]


def _not(test: Test) -> Test:
    return lambda record, cpu, comm: not test(record, cpu, comm)


def _both(left: Test, right: Test) -> Test:
    return lambda record, cpu, comm: left(record, cpu, comm) and right(record, cpu, comm)


def _either(left: Test, right: Test) -> Test:
    return lambda record, cpu, comm: left(record, cpu, comm) or right(record, cpu, comm)


def _term(name: str, sign: str, value: str, fields: Mapping[str, Field], context: FilterContext) -> Test:
    """Compile FIELD OP VALUE (init_pred())."""
    field, kind = _find(name, fields, context)
    is_text = kind.is_string and (kind is not Kind.COMM or context.gates.comm_patterns)
    if (sign == "~" and not is_text) or (is_text and sign not in ("==", "!=", "~")):
        raise TermError(Fault.ILLEGAL_FIELD_OP)
    if kind.is_string and sign == "~" and context.gates.early_globs:
        matches, is_negated = compile_pattern(value.encode("latin-1"), context.gates)
        return string_test(field, kind, matches, is_negated, context.read_string, False)
    if kind.is_string:
        pattern = _pattern(value, is_glob=sign == "~")
        negated = pattern.negated is not (sign == "!=")
        return string_test(field, kind, pattern.matcher(), negated, context.read_string, False)
    try:
        number = kstrtol(value) if field.signed else kstrtoul(value)
    except OSError:
        raise TermError(Fault.ILLEGAL_INTVAL) from None
    return cpu_number_test(sign, number) if kind is Kind.CPU else number_test(field, sign, number)


def _find(name: str, fields: Mapping[str, Field], context: FilterContext) -> tuple[Field, Kind]:
    if (field := fields.get(name)) is not None:
        return field, kind_of(field.type, False)
    found = generic_field(name, context.gates) if context.gates.generic_fields else None
    if found is None:
        raise TermError(Fault.FIELD_NOT_FOUND)
    return found


class _Pattern(NamedTuple):
    """A text to look for, and whether a * stands before and after it (filter_parse_regex())."""

    text: bytes
    before: bool
    after: bool
    negated: bool

    def matcher(self) -> Matcher:
        """Return a matcher of the text in a record's string, which ends at its NUL."""
        text, before, after = self.text, self.before, self.after

        def matches(record: bytes, start: int, length: int) -> bool:
            have = record[start : start + length].partition(b"\0")[0]
            if before and after:
                return text in have
            if before:
                return have.endswith(text)
            return have.startswith(text) if after else have == text

        return matches


def _pattern(value: str, *, is_glob: bool) -> _Pattern:
    if not is_glob:
        return _Pattern(value.encode("latin-1"), False, False, False)
    negated = value.startswith("!")
    value = value.removeprefix("!")
    before = value.startswith("*")
    text, star, _ = value.removeprefix("*").partition("*")
    return _Pattern(text.encode("latin-1"), before, bool(star), negated)
