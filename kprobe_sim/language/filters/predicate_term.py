"""One term of a filter, `FIELD OP VALUE`: read it as the kernel does, and compile the test.

Source: parse_pred() in kernel/trace/trace_events_filter.c of 6.1 and 6.12; fixtures/filters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from kprobe_sim.builds.gates import FilterGates
from kprobe_sim.language.filters.comparison import (
    Kind,
    ReadString,
    Test,
    cpu_number_test,
    cpu_set_test,
    function_test,
    kind_of,
    number_test,
    string_test,
)
from kprobe_sim.language.filters.errors import Fault
from kprobe_sim.language.primitives.cpulist import parse_cpulist
from kprobe_sim.language.primitives.glob import compile_pattern, compile_text
from kprobe_sim.language.primitives.kstrto import is_digit, kstrtol, kstrtoul
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.records.field import Field

# A function's start and end address, by its name or by any address in it; None if there is no such function.
FunctionRange = Callable[[str | int], tuple[int, int] | None]

_OPERATOR = re.compile("~|!=|==|<=|<|>=|>|&")  # the kernel tries them in this order
_BLANKS = re.compile("[\t\n\v\f\r \xa0]*")
_ALNUM = re.compile("[0-9A-Za-z\xc0-\xd6\xd8-\xf6\xf8-\xff]*")  # the kernel's isalnum() knows latin-1
_NAME = re.compile("[0-9A-Za-z_\xc0-\xd6\xd8-\xf6\xf8-\xff]*")
_WORD = re.compile("[^\t\n\v\f\r \xa0]*")
_MAX_TEXT = 256  # MAX_FILTER_STR_VAL, with the final NUL
_MAX_NUMBER = 24  # the kernel's buffer for a number, with the final NUL
_LONG = 8  # bytes of the kernel's long

_GENERIC = {
    "CPU": Kind.CPU,
    "cpu": Kind.CPU,
    "common_cpu": Kind.CPU,
    "COMM": Kind.COMM,
    "comm": Kind.COMM,
    "stacktrace": Kind.STACKTRACE,
    "STACKTRACE": Kind.STACKTRACE,
}


class FilterContext(NamedTuple):
    """What compiling a filter needs to know: the kernel's gates, its CPUs and functions, how to read a string."""

    gates: FilterGates
    cpus: int = 1  # possible CPUs
    function_range: FunctionRange | None = None
    read_string: ReadString | None = None


class TermError(Exception):
    """A fault in a term, and its position."""

    def __init__(self, fault: Fault, position: int = 0) -> None:
        super().__init__(fault, position)
        self.fault = fault
        self.position = position


class Term(NamedTuple):
    """A compiled term and where the text goes on."""

    test: Test
    end: int


class _Operand(NamedTuple):
    """The part of a term before its value: what the value is compared with, and how."""

    field: Field
    kind: Kind
    operator: str
    user_string: bool


def generic_field(name: str, gates: FilterGates) -> tuple[Field, Kind] | None:
    """Return a field that every event has although no record holds it: the CPU, the task's name, the stack."""
    kind = _GENERIC.get(name)
    if kind is None or (kind is Kind.STACKTRACE and not gates.stacktrace_field):
        return None
    if name == "common_cpu" and not gates.common_cpu:
        return None
    if kind is Kind.CPU:
        return Field("int", name, 0, 0, True), kind
    return Field("char *", name, 0, 0, False), kind


def read_term(text: str, start: int, fields: Mapping[str, Field], context: FilterContext) -> Term:
    """Read and compile the term at `start`, which isn't a blank.  Raises TermError."""

    # The kernel's positions are one greater.
    def wrong(fault: Fault, position: int) -> TermError:
        return TermError(fault, position + 1)

    position = _end(_NAME, text, start)
    if position == start:
        raise TermError(Fault.NO_FIELD)
    field, kind = _find(text[start:position], fields, context.gates) or (None, Kind.OTHER)
    if field is None:
        raise wrong(Fault.FIELD_NOT_FOUND, position)

    user_string, position = _suffix(".ustring", context.gates.ustring, text, position)
    function, position = _suffix(".function", context.gates.function, text, position)
    position = _end(_BLANKS, text, position)
    match = _OPERATOR.match(text, position)
    if match is None:
        raise wrong(Fault.INVALID_OP, position)
    operand = _Operand(field, kind, match.group(), user_string)
    position = _end(_BLANKS, text, match.end())

    sign = text[position : position + 1]
    if function:
        return _function(text, position, operand, context, wrong)
    if context.gates.cpulist and text.startswith("CPUS", position):
        return _cpus(text, position, operand, context, wrong)
    if sign in ("'", '"'):
        return _text(text, position, operand, context, wrong)
    if is_digit(text, position) or sign == "-":
        return _number(text, position, operand, wrong)
    raise wrong(Fault.INVALID_VALUE, position)


_Wrong = Callable[[Fault, int], TermError]


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position


def _suffix(suffix: str, known: bool, text: str, position: int) -> tuple[bool, int]:
    """Return whether a field's suffix, if the kernel knows it, is at a position, and where the text goes on."""
    has_suffix = known and text.startswith(suffix, position)
    return has_suffix, position + len(suffix) if has_suffix else position


def _find(name: str, fields: Mapping[str, Field], gates: FilterGates) -> tuple[Field, Kind] | None:
    # The event's fields win over the generic ones, and those over the common ones (no name is in both of these).
    field = fields.get(name)
    if field is not None:
        return field, kind_of(field.type, gates.cpulist)
    return generic_field(name, gates)


def _function(text: str, position: int, operand: _Operand, context: FilterContext, wrong: _Wrong) -> Term:
    if operand.field.size != _LONG:
        raise wrong(Fault.ILLEGAL_FIELD_OP, position)
    if operand.operator not in ("==", "!="):
        raise wrong(Fault.INVALID_OP, position)
    function: str | int
    if is_digit(text, position):
        end = _end(_ALNUM, text, position)
        if end - position >= _MAX_NUMBER:
            raise wrong(Fault.OPERAND_TOO_LONG, end)
        try:
            function = kstrtoul(text[position:end])
        except OSError:
            raise wrong(Fault.INVALID_VALUE, end) from None
    else:
        end = _end(_WORD, text, position)
        function = text[position:end]
    addresses = context.function_range(function) if context.function_range else None
    if addresses is None:
        raise wrong(Fault.NO_FUNCTION, end)
    return Term(function_test(operand.field, operand.operator, *addresses), end)


def _cpus(text: str, position: int, operand: _Operand, context: FilterContext, wrong: _Wrong) -> Term:
    if operand.kind not in (Kind.CPU, Kind.CPUMASK, Kind.OTHER) or operand.operator not in ("==", "!=", "&"):
        raise wrong(Fault.ILLEGAL_FIELD_OP, position)
    position += len("CPUS") + 1
    if text[position - 1 : position] != "{":
        raise wrong(Fault.MISSING_BRACE_OPEN, position)
    end = text.find("}", position)
    if end < 0:
        raise wrong(Fault.MISSING_BRACE_CLOSE, len(text))
    chosen = parse_cpulist(text[position:end], context.cpus) if end > position else None
    if chosen is None:
        raise wrong(Fault.INVALID_CPULIST, end)
    return Term(cpu_set_test(operand.field, operand.kind, operand.operator, chosen, context.cpus), end + 1)


def _text(text: str, position: int, operand: _Operand, context: FilterContext, wrong: _Wrong) -> Term:
    if operand.operator not in ("==", "!=", "~"):
        raise wrong(Fault.ILLEGAL_FIELD_OP, position)
    if not operand.kind.is_string:
        raise wrong(Fault.EXPECT_DIGIT, position)
    end = text.find(text[position], position + 1)
    if end < 0:  # quotes were paired before, but a function's name may have taken one
        raise wrong(Fault.MISSING_QUOTE, len(text))
    if end - position - 1 >= _MAX_TEXT:
        raise wrong(Fault.OPERAND_TOO_LONG, end)
    value = text[position + 1 : end].encode("latin-1")
    if operand.operator == "~":
        matches, negated = compile_pattern(value, context.gates)
    else:
        matches, negated = compile_text(value, context.gates), operand.operator == "!="
    test = string_test(operand.field, operand.kind, matches, negated, context.read_string, operand.user_string)
    return Term(test, end + 1)


def _number(text: str, position: int, operand: _Operand, wrong: _Wrong) -> Term:
    if operand.kind.is_string:
        raise wrong(Fault.EXPECT_STRING, position)
    if operand.operator == "~":
        raise wrong(Fault.ILLEGAL_FIELD_OP, position)
    end = _end(_ALNUM, text, position + text.startswith("-", position))
    if end - position >= _MAX_NUMBER:
        raise wrong(Fault.OPERAND_TOO_LONG, end)
    try:
        value = kstrtol(text[position:end]) if operand.field.signed else kstrtoul(text[position:end])
    except OSError:
        raise wrong(Fault.ILLEGAL_INTVAL, position) from None
    if operand.kind is Kind.CPU:
        return Term(cpu_number_test(operand.operator, value), end)
    return Term(number_test(operand.field, operand.operator, value), end)
