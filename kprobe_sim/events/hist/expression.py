"""Reading the fields of a hist trigger: `dfd.hex`, `ptr.sym-offset`, `common_timestamp.usecs-$ts0`, `a+b*2`.

Sources: parse_expr(), parse_unary(), parse_atom(), parse_field() and find_event_var() in
kernel/trace/trace_events_hist.c of 6.1; fixtures/triggers.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import ClassVar

from kprobe_sim.events.event_file import EventFile
from kprobe_sim.events.hist.data import HistData, copy_variable, histograms_of, histograms_with_variables
from kprobe_sim.events.hist.fault import Complain, HistFault, refused
from kprobe_sim.events.hist.field import (
    ALIAS,
    BUCKETS,
    COMM,
    CONSTANT,
    CPU,
    EXECNAME,
    EXPRESSION,
    GRAPH,
    HEX,
    HITCOUNT,
    KEY,
    LOG2,
    PERCENT,
    REFERENCE,
    STACKTRACE,
    STRING,
    SYM,
    SYM_OFFSET,
    SYSCALL,
    TIMESTAMP,
    USECS,
    VARIABLE,
    HistField,
    can_be_number,
    compute,
    is_stack,
    is_string,
)
from kprobe_sim.language.primitives.kstrto import kstrtoul
from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.records.field import Field

_PLAIN = {
    "hex": HEX, "sym": SYM, "sym-offset": SYM_OFFSET, "symXoffset": SYM_OFFSET, "syscall": SYSCALL, "log2": LOG2,
    "usecs": USECS,
}  # fmt: skip
_MOST_OPERATORS = 3


class ExpressionReader:
    """Reads the expressions of one trigger; `matched` are the events of its onmatch() actions, by system and name."""

    has_numbers = True
    value_modifiers: ClassVar[tuple[tuple[str, int], ...]] = (("percent", PERCENT), ("graph", GRAPH))

    def __init__(
        self,
        data: HistData,
        fields: Mapping[str, Field],
        assignments: dict[str, str],
        matched: list[tuple[str, str]],
        complain: Complain,
    ) -> None:
        self._data = data
        self._fields = fields
        self._assignments = assignments
        self._matched = matched
        self._complain = complain
        self._operators = 0

    def read(self, text: str, flags: int, variable: str = "") -> HistField:
        """Read one expression.  Raises OSError: EINVAL, EDOM, ENOMEM."""
        self._operators = 0
        return self._expression(text, flags, variable, variable)

    def atom(self, text: str, flags: int, variable: str = "") -> HistField:
        """Read one operand: a number, a variable or a field."""
        if self.has_numbers and text[:1].isdecimal():
            try:
                number = kstrtoul(text)
            except OSError:
                raise refused(self._complain, HistFault.EXPECT_NUMBER, text) from None
            return self._constant(number, flags, variable)
        system = event = ""
        name = text
        if text.count(".") >= 2:
            system, event, name = text.split(".", 2)
        local = self._local(system, event, name)
        if local is not None:
            name = local
        elif name.startswith("$") and len(name) > 1:
            referred = self.find_variable(system, event, name[1:])
            if referred is not None:
                return self._reference(referred, system, event, variable)
            self._complain(HistFault.VAR_NOT_FOUND, name[1:])
        return self._field(name, flags, variable)

    def find_variable(self, system: str, event: str, name: str) -> HistField | None:
        """Return a variable of another event's histogram (find_event_var)."""
        if not system:
            found = None
            for pair in self._matched:
                file = self._data.file.find(*pair)
                here = None if file is None else variable_of(file, name)
                if here is not None and found is not None:
                    self._complain(HistFault.VAR_NOT_UNIQUE, name)
                    return None
                found = here or found
            if found is not None:
                return found
        file = self._data.file.find(system, event) if system else self._file_with(name)
        return None if file is None else variable_of(file, name)

    def _file_with(self, name: str) -> EventFile | None:
        found: EventFile | None = None
        for data in histograms_with_variables(self._data.file):
            if data.file is not found and data.find_variable(name):
                if found is not None:
                    self._complain(HistFault.VAR_NOT_UNIQUE, name)
                    return None
                found = data.file
        return found

    def _local(self, system: str, event: str, name: str) -> str | None:
        """Return the field for which a variable of this trigger stands (local_field_var_ref)."""
        here = self._data.file.event
        if (system and (system, event) != (here.system, here.name)) or not name.startswith("$") or len(name) < 2:
            return None
        text = self._assignments.get(name[1:])
        if text is None or self.operator_of(text)[0] or (text.startswith("$") and len(text) > 1):
            return None
        return text

    def _reference(self, target: HistField, system: str, event: str, variable: str) -> HistField:
        reference = self._data.refer(target, system, event)
        if not variable:
            return reference
        alias = HistField(self._data, ALIAS | VARIABLE, variable=variable)
        alias.operands = [reference]
        copy_variable(alias, reference, system, event)
        alias.slot = reference.slot
        return alias

    def _constant(self, number: int, flags: int, variable: str) -> HistField:
        field = HistField(self._data, flags | CONSTANT, variable=variable)
        field.constant = number
        return field

    def _field(self, text: str, flags: int, variable: str) -> HistField:
        name, dot, modifier = text.partition(".")
        more, buckets = self._modifier(name, modifier, flags) if dot else (0, 0)
        found = self._modified(text, flags | more, variable)
        found.buckets = buckets
        return found

    def _modified(self, text: str, flags: int, variable: str) -> HistField:
        """Return the field of a text, whose modifier is in the flags."""
        name, _, modifier = text.partition(".")
        if name == "common_timestamp":
            self._data.has_time = True
            self._data.in_usecs |= bool(flags & USECS)
        kind, field = self._kind(name)
        if field is not None and is_stack(field) and self._stack_names():
            kind = STACKTRACE
        elif modifier == "stacktrace" and self._data.gates.hist_stacktrace_checked:
            raise refused(self._complain, HistFault.BAD_FIELD_MODIFIER, text)
        flags |= kind
        if field is not None and not flags & STACKTRACE and not (kind or is_string(field) or can_be_number(field)):
            raise refuse(errno.ENOMEM)
        return HistField(self._data, flags, field=field, variable=variable)

    def _kind(self, name: str) -> tuple[int, Field | None]:
        """Return the flags and the field of a name.  Raises OSError for an unknown name."""
        if kind := self._common_kind(name):
            return kind, None
        field = self._fields.get(name)
        if field is None and (generic := self._generic(name)) is not None:
            return generic
        if field is None or not field.size:
            raise refused(self._complain, HistFault.FIELD_NOT_FOUND, name)
        return 0, field

    def _common_kind(self, name: str) -> int:
        """Return the flags of a name that every event has, whatever its fields are; 0 if there is no such name."""
        gates = self._data.gates
        kind = {
            "common_timestamp": TIMESTAMP,
            "common_cpu": CPU,
            "common_comm": COMM | STRING if gates.hist_comm else 0,
            "hitcount": HITCOUNT if gates.hist_hitcount else 0,
        }.get(name, 0)
        is_field = gates.hist_stack_fields and name != "common_stacktrace"
        return kind or (STACKTRACE if name in self._stack_names() and not is_field else 0)

    def _generic(self, name: str) -> tuple[int, Field] | None:
        """Return the flags and the field of a name that filters know too, for an event without such a field."""
        if name in ("cpu", "CPU"):
            return CPU, Field("int", name, 0, 0, True)
        if name in ("comm", "COMM") and self._data.gates.hist_comm:
            return COMM | STRING, Field("char *", name, 0, 0, False)
        if name in self._stack_names():
            return STACKTRACE, Field("char *", name, 0, 0, False)
        return None

    def _stack_names(self) -> tuple[str, ...]:
        if not self._data.file.instance.machine.filter_gates.stacktrace_field:
            return ()
        return "common_stacktrace", *(name for name in ("stacktrace", "STACKTRACE") if name not in self._fields)

    def _modifier(self, name: str, modifier: str, flags: int) -> tuple[int, int]:
        if modifier in _PLAIN:
            return _PLAIN[modifier], 0
        if modifier == "execname" and name == "common_pid":
            return EXECNAME, 0
        if modifier == "stacktrace" and self._stack_names():
            return STACKTRACE, 0
        if modifier.startswith("bucket") and self._data.gates.hist_buckets:
            rest = modifier.removeprefix("bucket").removeprefix("s")
            if not rest.startswith("="):
                raise refused(self._complain, HistFault.BAD_FIELD_MODIFIER, rest)
            try:
                buckets = kstrtoul(rest[1:])
            except OSError:
                buckets = 0
            if not buckets:
                raise refused(self._complain, HistFault.BAD_FIELD_MODIFIER, rest[1:])
            return BUCKETS, buckets
        for known, flag in self.value_modifiers:
            if modifier.startswith(known) and not flags & (VARIABLE | KEY):
                return flag, 0
        raise refused(self._complain, HistFault.BAD_FIELD_MODIFIER, modifier)

    def _expression(self, text: str, flags: int, variable: str, start_of: str = "") -> HistField:
        """Read an expression; if it starts that of the variable `start_of`, that variable's text is cut, too."""
        if self._operators > _MOST_OPERATORS:
            raise refused(self._complain, HistFault.TOO_MANY_SUBEXPR, text)
        operator, position = self.operator_of(text)
        if not operator:
            return self._only(text, flags, variable, start_of)
        if operator == "-()":
            return self._negated(text, flags, variable)
        self._operators += 1
        left, right = text[:position], text[position + 1 :]
        if start_of:
            self._assignments[start_of] = left
        if not left or not right:
            raise refuse(errno.EINVAL)
        operands = [self._operand(left, start_of), self._operand(right)]
        meant = [self._meant(operand) for operand in operands]
        if meant[0].flags & USECS != meant[1].flags & USECS:
            raise refused(self._complain, HistFault.TIMESTAMP_MISMATCH, "")
        for operand in operands:
            operand.read_once = True
        self._check_divisor(operator, meant[1], right)
        if meant[0].flags & meant[1].flags & CONSTANT:
            return self._constant(compute(operator, meant[0].constant, meant[1].constant), flags, variable)
        flags |= EXPRESSION | operands[0].flags & (TIMESTAMP | USECS)
        return self._built(operator, operands, flags, variable)

    def operator_of(self, text: str) -> tuple[str, int]:
        """Return the operator that applies last, and its position; "" if there is none."""
        minus, plus = text.rfind("-"), text.rfind("+")
        if minus == 0:
            return "-()", 0
        if minus > 0 or plus >= 0:
            return ("+", plus) if plus > minus else ("-", minus)
        divide, times = text.rfind("/"), text.rfind("*")
        if divide < 0 and times < 0:
            return "", -1
        return ("*", times) if times > divide else ("/", divide)

    def _only(self, text: str, flags: int, variable: str, start_of: str) -> HistField:
        """Read an expression of one operand."""
        if start_of and text.count(".") >= 2:
            self._assignments[start_of] = text.partition(".")[0]
        return self.atom(text, flags, variable)

    def _operand(self, text: str, start_of: str = "") -> HistField:
        operand = self._expression(text, 0, "", start_of)
        if operand.flags & STRING:
            raise refused(self._complain, HistFault.INVALID_STR_OPERAND, text)
        return operand

    def _check_divisor(self, operator: str, divisor: HistField, text: str) -> None:
        if operator == "/" and divisor.flags & CONSTANT and not divisor.constant:
            raise refused(self._complain, HistFault.DIVISION_BY_ZERO, text)

    def _negated(self, text: str, flags: int, variable: str) -> HistField:
        self._operators += 1
        if self._operators > _MOST_OPERATORS:
            raise refused(self._complain, HistFault.TOO_MANY_SUBEXPR, text)
        inner = text[1:]
        if "(" not in inner or ")" not in inner:
            raise refuse(errno.EINVAL)
        inner = inner[1:]
        if not inner.endswith(")"):
            raise refused(self._complain, HistFault.UNARY_MINUS_SUBEXPR, inner)
        operand = self._operand(inner[:-1])
        flags |= EXPRESSION | operand.flags & (TIMESTAMP | USECS)
        return self._built("-()", [operand], flags, variable)

    def _built(self, operator: str, operands: list[HistField], flags: int, variable: str) -> HistField:
        field = HistField(self._data, flags, variable=variable)
        field.operator, field.operands = operator, operands
        field.size, field.signed, field.type = operands[0].size, operands[0].signed, operands[0].type
        field.name = field.expression_text()
        return field

    def _meant(self, operand: HistField) -> HistField:
        """Return the variable that an operand refers to, or the operand (check_expr_operands)."""
        if not operand.flags & (REFERENCE | ALIAS):
            return operand
        owner = operand.variable_of
        found = None if owner is None or operand.name is None else owner.find_variable(operand.name)
        if found is None:
            raise refuse(errno.EINVAL)
        return found


def variable_of(file: EventFile, name: str) -> HistField | None:
    """Return a variable of one of an event's histograms."""
    for data in histograms_of(file):
        found = data.find_variable(name)
        if found is not None:
            return found
    return None
