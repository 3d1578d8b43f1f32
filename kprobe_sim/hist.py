"""hist triggers, as far as they are read, listed and removed; what they would count isn't simulated.

    hist:keys=FIELD[,FIELD...][:vals=...][:sort=...][:size=N][:pause|:cont|:clear][:name=...][:VAR=...][ if FILTER]

Actions (onmatch, onmax, onchange) are refused with ENOSYS where the kernel would take them.  Sources:
event_hist_trigger_parse() and what it calls in kernel/trace/trace_events_hist.c of 6.1; fixtures/triggers.
"""

from __future__ import annotations

import errno
import re
from typing import NamedTuple

from kprobe_sim.event_file import EventFile
from kprobe_sim.field import COMMON_FIELDS
from kprobe_sim.hist_fields import TIMESTAMP, FieldReader, HistField
from kprobe_sim.kstrto import kstrtoul
from kprobe_sim.node import refuse
from kprobe_sim.trigger import Hit, Trigger

_BLANKS = "\t\n\v\f\r \xa0"
_CONDITION = re.compile(r"(?<=[ \t])if")
_ACTION = re.compile(r"(onmatch|onmax|onchange)\(")
_MATCH = re.compile(r"onmatch\(([^.)]*)\.([^.)]*)")
_DEFAULT_BITS, _LEAST_BITS, _MOST_BITS = 11, 7, 17
_MOST_KEYS, _MOST_VALUES, _MOST_VARIABLES = 3, 3, 16
_KEY_SPACE = 256 + 128
_HITCOUNT = HistField("hitcount")
_MALFORMED = "Malformed assignment"


class _Attributes(NamedTuple):
    """What stands between the colons."""

    keys: str
    values: str | None
    sort: str | None
    name: str
    clock: str
    bits: int
    assignments: tuple[str, ...]
    words: frozenset[str]  # pause, cont, clear


class Histogram(NamedTuple):
    """What a hist trigger counts, and by what."""

    name: str
    keys: tuple[HistField, ...]
    values: tuple[HistField, ...]
    variables: tuple[HistField, ...]
    sort: tuple[tuple[HistField, bool], ...]  # and whether descending


class HistTrigger(Trigger):
    """A hist trigger of one event."""

    group = "hist"
    needs_record = True

    def __init__(self, file: EventFile, histogram: Histogram, attributes: _Attributes) -> None:
        super().__init__(file, "hist", None)
        self.histogram = histogram
        self.size = 1 << attributes.bits
        self.clock = attributes.clock if _has_time(histogram) else ""

    def line(self) -> str:
        histogram = self.histogram
        parts = ["hist", histogram.name] if histogram.name else ["hist"]
        parts.append("keys=" + ",".join(key.text() for key in histogram.keys))
        parts.append("vals=" + ",".join(value.text() for value in histogram.values))
        if histogram.variables:
            parts.append(",".join(variable.text() for variable in histogram.variables))
        parts.append("sort=" + ",".join(key.text() + ".descending" * down for key, down in histogram.sort))
        parts.append(f"size={self.size}")
        if self.clock:
            parts.append(f"clock={self.clock}")
        text = ":".join(parts)
        if self.filter_text:
            text += f" if {self.filter_text}"
        return text + (" [paused]" if self.paused else " [active]")

    def is_rival(self, other: Trigger) -> bool:
        return (
            isinstance(other, HistTrigger)
            and self.histogram == other.histogram
            and self.filter_text == other.filter_text
        )

    def fire(self, hit: Hit, record: bytes) -> None:
        """Count a record: not simulated."""


class HistLine:
    """A line of the trigger file that begins with `hist`; `rest` is what follows the name."""

    def __init__(self, file: EventFile, rest: str) -> None:
        self._file = file
        self._command = f"hist:{rest}"
        self._parameter, self.condition = _split_condition(rest)
        self.attributes = self._attributes()

    def trigger(self) -> HistTrigger:
        """Return the trigger that it describes, without its filter.  Raises OSError."""
        attributes = self.attributes
        common = self._file.instance.kernel.filter_gates.stacktrace_field
        fields = {field.name: field for field in (*COMMON_FIELDS, *self._file.event.filter_fields())}
        reader = FieldReader(fields, self.complain, common_stacktrace=common)
        variables = self._variables(attributes, reader)
        values = self._values(attributes, reader)
        assigned = tuple(reader.variable(*variable) for variable in variables)
        keys = self._keys(attributes, reader)
        sort = self._sort(attributes, (*values[1:], *keys))
        return HistTrigger(self._file, Histogram(attributes.name, keys, values, assigned, sort), attributes)

    def complain(self, message: str, at: str) -> None:
        """Put a message into the error log, with the caret at the first place of a text in the command."""
        event = self._file.event
        column = max(self._command.find(at), 0)
        self._file.instance.error_log.log(f"hist:{event.system}:{event.name}", message, self._command, column)

    def _fail(self, message: str, at: str) -> None:
        self.complain(message, at)
        raise refuse(errno.EINVAL)

    def _attributes(self) -> _Attributes:
        found: dict[str, str] = {}
        assignments: list[str] = []
        words: set[str] = set()
        actions: list[str] = []
        bits = _DEFAULT_BITS
        for part in self._parameter.split(":"):
            head, equals, value = part.partition("=")
            if equals:
                if not value:
                    self._fail("Empty assignment", part)
                if head in ("key", "keys", "val", "vals", "values", "sort", "name", "clock"):
                    found[{"key": "keys", "val": "vals", "values": "vals"}.get(head, head)] = value
                elif head == "size":
                    bits = _bits(value)
                elif len(assignments) == _MOST_VARIABLES:
                    self._fail("Too many variables defined", part)
                else:
                    assignments.append(part)
            elif part in ("pause", "cont", "continue", "clear"):
                words.add(part.removesuffix("inue"))
            elif _ACTION.match(part):
                actions.append(part)
            else:
                raise refuse(errno.EINVAL)
        if "keys" not in found:
            raise refuse(errno.EINVAL)
        for action in actions:
            match = _MATCH.match(action)
            if match and self._file.instance.find(*match.groups()) is None:
                self._fail("Invalid subsystem or event name", match[2])
            raise refuse(errno.ENOSYS)  # actions aren't simulated: say so, no kernel answers this
        name = f"name={found['name']}" if "name" in found else ""
        clock = found.get("clock", "global").strip(_BLANKS)
        return _Attributes(
            found["keys"],
            found.get("vals"),
            found.get("sort"),
            name,
            clock,
            bits,
            tuple(assignments),
            frozenset(words),
        )

    def _variables(self, attributes: _Attributes, reader: FieldReader) -> list[tuple[str, str]]:
        variables: list[tuple[str, str]] = []
        for assignment in attributes.assignments:
            for part in assignment.split(",")[:_MOST_VARIABLES]:
                name, equals, value = part.partition("=")
                if not equals:
                    self._fail(_MALFORMED, name)
                if len(variables) == _MOST_VARIABLES:
                    self._fail("Too many variables defined", name)
                variables.append((name, value))
        return variables

    def _values(self, attributes: _Attributes, reader: FieldReader) -> tuple[HistField, ...]:
        values = [_HITCOUNT]
        left = [] if attributes.values is None else attributes.values.split(",")
        for _ in range(_MOST_VALUES):
            if not left or len(values) == _MOST_VALUES:
                break
            text = left.pop(0)
            if text != "hitcount":
                values.append(reader.value(text))
        if left and left != ["hitcount"]:
            raise refuse(errno.EINVAL)
        return tuple(values)

    def _keys(self, attributes: _Attributes, reader: FieldReader) -> tuple[HistField, ...]:
        texts = attributes.keys.split(",")
        keys: list[HistField] = []
        for text in texts[:_MOST_KEYS]:
            keys.append(reader.key(text))
            if sum(key.key_size for key in keys) > _KEY_SPACE:
                raise refuse(errno.EINVAL)
        if len(texts) > _MOST_KEYS:
            raise refuse(errno.EINVAL)
        return tuple(keys)

    def _sort(self, attributes: _Attributes, fields: tuple[HistField, ...]) -> tuple[tuple[HistField, bool], ...]:
        if attributes.sort is None:
            return ((_HITCOUNT, False),)
        keys = []
        texts = attributes.sort.split(",")
        for index, text in enumerate(texts):
            if not text:
                self._fail("Empty sort field", "sort=")
            if index == 1 and len(texts) > 2:
                self._fail("Too many sort fields (Max = 2)", "sort=")
            name, dot, modifier = text.partition(".")
            if not name:
                self._fail("Empty sort field", "sort=")
            field = _HITCOUNT if name == "hitcount" else next((one for one in fields if one.name == name), None)
            if field is None:
                self._fail("Sort field must be a key or a val", name)
            if dot and modifier not in ("descending", "ascending"):
                self._fail("Invalid sort modifier", modifier)
            assert field is not None
            keys.append((field, modifier == "descending"))
        return tuple(keys)


def _split_condition(rest: str) -> tuple[str, str | None]:
    """Find ` if ` and what follows.  Raises OSError EINVAL where nothing does."""
    if rest.startswith("if"):
        raise refuse(errno.EINVAL)
    for match in _CONDITION.finditer(rest):
        if match.start() >= len(rest) - 3:
            raise refuse(errno.EINVAL)
        if rest[match.end()] in " \t":
            return rest[: match.start() - 1].strip(_BLANKS), rest[match.start() :].strip(_BLANKS)
    return rest, None


def _bits(text: str) -> int:
    bits = max(kstrtoul(text) - 1, 0).bit_length()
    if not _LEAST_BITS <= bits <= _MOST_BITS:
        raise refuse(errno.EINVAL)
    return bits


def _has_time(histogram: Histogram) -> bool:
    return any(TIMESTAMP in one.name for one in (*histogram.keys, *histogram.values, *histogram.variables))
