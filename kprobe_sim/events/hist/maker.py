"""hist triggers: read, checked, listed, and counting.

    hist:keys=FIELD[,..][:vals=..][:sort=..][:size=N][:pause|:cont|:clear][:name=..][:VAR=..][:ACTION] [if FILTER]

Sources: event_hist_trigger_parse(), create_hist_data(), hist_register_trigger() and what they call in
kernel/trace/trace_events_hist.c of 6.1; fixtures/triggers, fixtures/histograms.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence

from kprobe_sim.events.event_file import EventFile
from kprobe_sim.events.hist.action import MadeAction, read_action
from kprobe_sim.events.hist.data import HistAttributes, HistData, SortKey, histograms_of
from kprobe_sim.events.hist.expression import ExpressionReader, variable_of
from kprobe_sim.events.hist.fault import NEWER, HistFault, refused
from kprobe_sim.events.hist.field import (
    BUCKETS,
    EXECNAME,
    EXPRESSION,
    GRAPH,
    HITCOUNT,
    KEY,
    LOG2,
    PERCENT,
    REFERENCE,
    STACKTRACE,
    STRING,
    STRING_SIZE,
    SYM,
    SYM_OFFSET,
    SYSCALL,
    TIMESTAMP,
    USECS,
    VARIABLE,
    HistField,
)
from kprobe_sim.events.hist.synthetic import SyntheticTarget
from kprobe_sim.events.hist.trigger import ErrorReporter, HistHost, HistTrigger
from kprobe_sim.language.primitives.kstrto import kstrtoul
from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.records.field import COMMON_FIELDS

_BLANKS = "\t\n\v\f\r \xa0"
_CONDITION = re.compile(r"(?<=[ \t])if")
_ACTION = re.compile(r"(onmatch|onmax|onchange)\(")
_DEFAULT_BITS, _LEAST_BITS, _MOST_BITS = 11, 7, 17
_MOST_KEYS, _MOST_VALUES, _MOST_VARIABLES, _MOST_ACTIONS = 3, 3, 16, 8
_KEY_SPACE = 256 + 128
_SHORT_COMMAND = 255  # of 5.4: MAX_FILTER_STR_VAL, with the zero at its end
_NOT_OF_VALUES = BUCKETS | LOG2 | SYM | SYM_OFFSET | SYSCALL | STACKTRACE
_NOT_OF_VARIABLES = GRAPH | PERCENT | BUCKETS | LOG2


# The fields as kernels before 5.10 read them: sums and differences, split at the first sign. Source:
# contains_operator(), parse_expr() and parse_unary() in kernel/trace/trace_events_hist.c of 5.4.273.
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


class HistMaker:
    """Makes a histogram from what follows `hist:` in a line of the trigger file.

    `outer` logs faults instead, if the histogram is made for a field in another trigger.
    """

    def __init__(
        self,
        file: EventFile,
        parameters: str,
        host: HistHost,
        *,
        removes: bool,
        outer: ErrorReporter | None = None,
    ) -> None:
        self._file = file
        self.host = host
        self._outer = outer
        self._command = (
            f"hist:{parameters}" if file.instance.machine.gates.hist_log_is_whole else parameters[:_SHORT_COMMAND]
        )
        parameter, self.condition = _split_condition(parameters)
        gates = file.instance.machine.gates
        hides_minus = gates.hist_sym_offset and gates.hist_arithmetic
        self._parameter = parameter.replace(".sym-offset", ".symXoffset") if hides_minus else parameter
        self.attributes = self._attributes()
        self.data = HistData(file, self.attributes, removes=removes)
        self._actions = [read_action(text, self.data, self.complain) for text in self.attributes.actions]
        self._assignments = self._variables()
        fields = {field.name: field for field in (*COMMON_FIELDS, *file.event.filter_fields())}
        matched = [text.matched for text in self._actions if text.handler == "onmatch"]
        reader = ExpressionReader if gates.hist_arithmetic else EarlyExpressionReader
        self._reader = reader(self.data, fields, dict(self._assignments), matched, self.complain)
        self._values()
        for name, text in self._assignments:
            self._variable(name, text)
        self._keys()
        self._sort()
        self.data.actions = [MadeAction(text, self.data) for text in self._actions]
        self.data.start()

    def trigger(self) -> HistTrigger:
        """Return the described trigger, without its filter."""
        return HistTrigger(self._file, self.data, self.host)

    def target(self, name: str) -> SyntheticTarget | None:
        """Return the synthetic event of that name, or None."""
        return self.host.target(name)

    def create_actions(self) -> None:
        """Make what the actions need.  Raises OSError."""
        for action in self.data.actions:
            assert isinstance(action, MadeAction)
            action.create(self, self._reader)

    def field_of(self, system: str, event: str, name: str, reader: ExpressionReader) -> HistField:
        """Return a variable for a field of another event, if need be from a new histogram."""
        file = self._file.find(system, event)
        if file is None:
            raise refused(self.complain, HistFault.EVENT_FILE_NOT_FOUND, name)
        like = next((other for other in histograms_of(file) if _same_keys(self.data, other)), None)
        if like is None:
            raise refused(self.complain, HistFault.HIST_NOT_FOUND, name)
        variable = reader.find_variable(system, event, f"synthetic_{name}")
        if variable is not None:
            return variable
        keys = ",".join(key.label() for key in like.keys)
        parameters = f"keys={keys}:synthetic_{name}={name}"
        triggers = [trigger for trigger in file.triggers if isinstance(trigger, HistTrigger) and trigger.data is like]
        if triggers and triggers[0].filter_text:
            parameters += f" if {triggers[0].filter_text}"
        try:
            self.host.put(file, parameters, outer=self)
        except OSError:
            self.complain(HistFault.HIST_CREATE_FAIL, name)
            raise
        self.data.field_variable_triggers.append((file, parameters))
        variable = reader.find_variable(system, event, f"synthetic_{name}")
        if variable is None:
            raise refused(self.complain, HistFault.SYNTH_VAR_NOT_FOUND, name)
        return variable

    def has_variable(self, name: str) -> bool:
        """Return True if a histogram of the event has a variable of that name, unless one is to be removed."""
        if self.data.removes:
            return False
        return self.data.find_variable(name) is not None or variable_of(self._file, name) is not None

    def complain(self, fault: HistFault, word: str) -> None:
        """Put a fault into the error log, with the caret where a word first occurs in the command."""
        if fault in NEWER and not self._file.instance.machine.gates.hist_log_is_whole:
            return
        if self._outer is not None:
            self._outer.complain(fault, word)
            return
        event = self._file.event
        column = max(self._command.find(word), 0)
        self._file.instance.error_log.log(f"hist:{event.system}:{event.name}", fault.text, self._command, column)

    def _attributes(self) -> HistAttributes:
        parameters: dict[str, str] = {}
        assignments: list[str] = []
        words: set[str] = set()
        actions: list[str] = []
        bits = _DEFAULT_BITS
        no_hitcount = False
        gates = self._file.instance.machine.gates
        for part in self._parameter.split(":"):
            head, equals, value = part.partition("=")
            if equals:
                if not value:
                    raise refused(self.complain, HistFault.EMPTY_ASSIGNMENT, part)
                if head in ("key", "keys", "val", "vals", "values", "sort", "name", "clock"):
                    parameters[{"key": "keys", "val": "vals", "values": "vals"}.get(head, head)] = value
                elif head == "size":
                    bits = _bits(value)
                else:
                    self._check_room(assignments, part)
                    assignments.append(part)
            elif part in ("nohitcount", "NOHC") and gates.hist_hitcount:
                no_hitcount = True
            elif part in ("pause", "cont", "continue", "clear"):
                words.add(part.removesuffix("inue"))
            elif _ACTION.match(part) and len(actions) < _MOST_ACTIONS:
                actions.append(part)
            else:
                raise refuse(errno.EINVAL)
        if "keys" not in parameters:
            raise refuse(errno.EINVAL)
        clock = parameters.get("clock", "global").strip(_BLANKS)
        name = parameters.get("name", "")
        return HistAttributes(
            parameters["keys"],
            parameters.get("vals"),
            parameters.get("sort"),
            name,
            clock,
            bits,
            tuple(assignments),
            tuple(actions),
            frozenset(words),
            no_hitcount,
        )

    def _check_room(self, variables: Sequence[object], word: str) -> None:
        if len(variables) == _MOST_VARIABLES:
            raise refused(self.complain, HistFault.TOO_MANY_VARS, word)

    def _variables(self) -> list[tuple[str, str]]:
        variables: list[tuple[str, str]] = []
        for assignment in self.attributes.assignments:
            for part in assignment.split(",")[:_MOST_VARIABLES]:
                name, equals, value = part.partition("=")
                if not equals or not self._file.instance.machine.gates.hist_variables:
                    raise refused(self.complain, HistFault.MALFORMED_ASSIGNMENT, name)
                self._check_room(variables, name)
                variables.append((name, value))
        return variables

    def _values(self) -> None:
        values = self.data.values
        values.append(HistField(self.data, HITCOUNT))
        left = [] if self.attributes.values is None else self.attributes.values.split(",")
        gates = self._file.instance.machine.gates
        hitcounts = 0
        for _ in range(_MOST_VALUES):
            if not left or len(values) == _MOST_VALUES:
                break
            text = left.pop(0)
            if text == "hitcount":
                hitcounts += 1
                if hitcounts == 1 or not gates.hist_hitcount:
                    continue
            field = self._reader.read(text, 0)
            refused_flags = _NOT_OF_VALUES if gates.hist_percent else _NOT_OF_VALUES | PERCENT | GRAPH
            if gates.hist_values_checked and field.flags & refused_flags:
                raise refused(self.complain, HistFault.BAD_FIELD_MODIFIER, text)
            values.append(field)
        if self.attributes.no_hitcount and len(values) == 1:
            raise refused(self.complain, HistFault.NEED_NOHC_VAL)
        if left and left != ["hitcount"]:
            raise refuse(errno.EINVAL)

    def _variable(self, name: str, text: str) -> None:
        if self.has_variable(name):
            raise refused(self.complain, HistFault.DUPLICATE_VAR, name)
        found = self._reader.read(text, VARIABLE, name)
        gates = self._file.instance.machine.gates
        if gates.hist_values_checked and found.flags & _NOT_OF_VARIABLES:
            raise refused(self.complain, HistFault.BAD_FIELD_MODIFIER, text)
        if found.flags & EXECNAME and gates.hist_name_variables:
            found.flags = STRING | VARIABLE | EXECNAME
            found.size, found.signed, found.type = STRING_SIZE, False, "char[]"
        found.index, found.variable_of = self.data.add_variable(), self.data
        self.data.variables.append(found)

    def _keys(self) -> None:
        data = self.data
        texts = self.attributes.keys.split(",")
        for text in texts[:_MOST_KEYS]:
            if text == "stacktrace":
                field = HistField(data, KEY | STACKTRACE)
            else:
                field = self._reader.read(text, KEY)
                if _has_variables(field):
                    raise refused(self.complain, HistFault.INVALID_REF_KEY, text)
            field.size = -(-field.size // 8) * 8
            field.offset = data.key_size
            data.key_size += field.size
            if data.key_size > _KEY_SPACE:
                raise refuse(errno.EINVAL)
            data.keys.append(field)
        if len(texts) > _MOST_KEYS:
            raise refuse(errno.EINVAL)

    def _sort(self) -> None:
        data = self.data
        if self.attributes.sort is None:
            data.sort.append(SortKey(0, False))
            return
        texts = self.attributes.sort.split(",")
        for index, text in enumerate(texts):
            if not text:
                raise refused(self.complain, HistFault.EMPTY_SORT_FIELD, "sort=")
            if index == 1 and len(texts) > 2:
                raise refused(self.complain, HistFault.TOO_MANY_SORT_FIELDS, "sort=")
            name, dot, modifier = text.partition(".")
            if not name:
                raise refused(self.complain, HistFault.EMPTY_SORT_FIELD, "sort=")
            position = self._sort_position(name)
            if dot and modifier not in ("descending", "ascending"):
                raise refused(self.complain, HistFault.INVALID_SORT_MODIFIER, modifier)
            data.sort.append(SortKey(position, modifier == "descending"))

    def _sort_position(self, name: str) -> int:
        """Return the position of a field to sort by, asking no later field for its name (gate `hist_names_pile_up`)."""
        if name == "hitcount":
            return 0
        for position, field in enumerate((*self.data.values[1:], *self.data.keys), 1):
            if field.label() == name:
                return position
        raise refused(self.complain, HistFault.INVALID_SORT_FIELD, name)


def _has_variables(field: HistField) -> bool:
    return bool(field.flags & (VARIABLE | REFERENCE)) or any(_has_variables(operand) for operand in field.operands)


def _same_keys(first: HistData, second: HistData) -> bool:
    """Return True if the histograms of two events have keys of the same types (compatible_keys)."""
    return [(key.type, key.size, key.signed) for key in first.keys] == [
        (key.type, key.size, key.signed) for key in second.keys
    ]


def _split_condition(parameters: str) -> tuple[str, str | None]:
    """Split at ` if `.  Raises OSError EINVAL if nothing follows it."""
    if parameters.startswith("if"):
        raise refuse(errno.EINVAL)
    for match in _CONDITION.finditer(parameters):
        if match.start() >= len(parameters) - 3:
            raise refuse(errno.EINVAL)
        if parameters[match.end()] in " \t":
            return parameters[: match.start() - 1].strip(_BLANKS), parameters[match.start() :].strip(_BLANKS)
    return parameters, None


def _bits(text: str) -> int:
    bits = max(kstrtoul(text) - 1, 0).bit_length()
    if not _LEAST_BITS <= bits <= _MOST_BITS:
        raise refuse(errno.EINVAL)
    return bits
