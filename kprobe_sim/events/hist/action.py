"""The actions of a histogram: onmatch(), onmax() and onchange() with trace(), save() and snapshot().

Sources: action_parse(), trace_action_create(), create_field_var_hist(), ontrack_action() and what they call in
kernel/trace/trace_events_hist.c of 6.1.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Protocol

from kprobe_sim.events.hist.data import FieldVariable, HistData, make_variable, set_variables
from kprobe_sim.events.hist.expression import ExpressionReader
from kprobe_sim.events.hist.fault import Complain, HistFault, refused
from kprobe_sim.events.hist.field import (
    EXECNAME,
    RECORD_ADDRESS,
    STACKTRACE,
    STRING,
    STRING_SIZE,
    VARIABLE,
    HistField,
    Sample,
)
from kprobe_sim.events.hist.map import Element
from kprobe_sim.events.hist.synthetic import SyntheticTarget, fits
from kprobe_sim.events.hist.text import key_text
from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.named_tuple import NamedTuple

_BLANKS = "\t\n\v\f\r \xa0"
_MATCH, _MAX, _CHANGE = "onmatch", "onmax", "onchange"
_WORDS = {_MAX: "max", _CHANGE: "changed"}


class ActionText(NamedTuple):
    """An action as it was written: `onmatch(sched.sched_waking).trace(latency,$lat)`."""

    handler: str
    about: str  # the event, or the variable
    name: str
    parameters: tuple[str, ...]

    @property
    def matched(self) -> tuple[str, str]:
        """System and name of the event of an onmatch()."""
        system, _, event = self.about.partition(".")
        return system, event


def read_action(text: str, data: HistData, complain: Complain) -> ActionText:
    """Split an action.  Raises OSError EINVAL."""
    handler, _, rest = text.partition("(")
    about, closed, rest = rest.partition(")")
    if handler == _MATCH:
        _check_match(about, bool(closed), data, complain)
    elif not closed:
        raise refuse(errno.EINVAL)
    _, dot, rest = rest.partition(".")
    name, brace, rest = rest.partition("(")
    if not dot or not brace:
        raise refused(complain, HistFault.ACTION_NOT_FOUND)
    inner, closed, _ = rest.partition(")")
    if name.startswith("snapshot"):
        if not closed:
            raise refused(complain, HistFault.NO_CLOSING_PAREN, inner)
        parameters: tuple[str, ...] = ()
    else:
        parameters = tuple(part.strip(_BLANKS) for part in inner.split(","))
        has_event = name.startswith("trace")  # the first parameter of trace() is the synthetic event
        _check_parameters(parameters, data.gates.synthetic_fields + has_event, complain)
    if handler == _MATCH and name.startswith(("save", "snapshot")):
        raise refused(complain, HistFault.ACTION_MISMATCH, name)
    return ActionText(handler, about, name, parameters)


def _check_match(about: str, closed: bool, data: HistData, complain: Complain) -> None:
    """Check that the event of an onmatch() exists."""
    if not closed:
        raise refused(complain, HistFault.NO_CLOSING_PAREN, about)
    system, dot, event = about.partition(".")
    if not dot:
        raise refused(complain, HistFault.SUBSYS_NOT_FOUND, system)
    if data.file.find(system, event) is None:
        raise refused(complain, HistFault.INVALID_SUBSYS_EVENT, event)


def _check_parameters(parameters: Sequence[str], most: int, complain: Complain) -> None:
    for count, parameter in enumerate(parameters):
        if count >= most:
            raise refused(complain, HistFault.TOO_MANY_PARAMS)
        if len(parameter) < 2:
            raise refused(complain, HistFault.INVALID_PARAM, parameter)


class Maker(Protocol):
    """The maker of the histogram that an action belongs to."""

    def complain(self, fault: HistFault, word: str) -> None: ...

    def target(self, name: str) -> SyntheticTarget | None: ...

    def has_variable(self, name: str) -> bool: ...

    def field_of(self, system: str, event: str, name: str, reader: ExpressionReader) -> HistField: ...


class MadeAction:
    """An action of a histogram that exists, or of the description of one to remove."""

    def __init__(self, text: ActionText, data: HistData) -> None:
        self._text = text
        self._data = data
        self._watched: HistField | None = None  # the variable of onmax and onchange
        self._tracked: HistField | None = None  # the value that they have seen
        self._target: SyntheticTarget | None = None
        self._arguments: list[HistField] = []
        self._snapshot: tuple[int, str] | None = None  # the value and key of the last one

    # made

    def create(self, maker: Maker, reader: ExpressionReader) -> None:
        """Make what the action needs.  Raises OSError."""
        text, data = self._text, self._data
        if text.handler != _MATCH:
            self._watch(maker)
        if self._saves:
            if data.saved:
                raise refused(maker.complain, HistFault.TOO_MANY_SAVE_ACTIONS)
            for parameter in text.parameters:
                try:
                    data.saved.append(self._field_variable(parameter, maker, reader))
                except OSError:
                    maker.complain(HistFault.FIELD_VAR_CREATE_FAIL, parameter)
                    raise
        elif self._snaps:
            self._prepare_snapshot()
        else:
            self._trace(maker, reader)

    @property
    def _saves(self) -> bool:
        return self._text.name.startswith("save")

    @property
    def _snaps(self) -> bool:
        return self._text.name.startswith("snapshot")

    @property
    def _by_keyword(self) -> bool:
        return self._text.name.startswith("trace")

    def _watch(self, maker: Maker) -> None:
        about = self._text.about
        if not about.startswith("$"):
            raise refused(maker.complain, HistFault.ONX_NOT_VAR, about)
        variable = self._data.find_variable(about[1:])
        if variable is None:
            raise refused(maker.complain, HistFault.ONX_VAR_NOT_FOUND, about[1:])
        self._watched = self._data.refer(variable, "", "")
        self._tracked = make_variable(self._data, f"__{'max' if self._text.handler == _MAX else 'change'}")

    def _prepare_snapshot(self) -> None:
        instance = self._data.file.instance
        if instance.snapshot_condition is not None:
            raise refuse(errno.EBUSY)
        instance.allocate_snapshot()
        instance.snapshot_condition = self

    def _trace(self, maker: Maker, reader: ExpressionReader) -> None:
        text, data = self._text, self._data
        name, parameters = text.name, text.parameters
        if self._by_keyword:
            name, parameters = parameters[0], parameters[1:]
        target = maker.target(name)
        if target is None:
            raise refused(maker.complain, HistFault.SYNTH_EVENT_NOT_FOUND, name)
        target.hold(1)
        try:
            for position, parameter in enumerate(parameters):
                system, event, variable = self._argument(parameter, maker, reader)
                if not fits(target, variable, position):
                    raise refused(maker.complain, HistFault.SYNTH_TYPE_MISMATCH, parameter.rpartition(".")[2])
                self._arguments.append(data.refer(variable, system, event))
            if len(parameters) != len(target.types):
                raise refused(maker.complain, HistFault.SYNTH_COUNT_MISMATCH, name)
        except OSError:
            target.hold(-1)
            raise
        self._target = target

    def _argument(self, parameter: str, maker: Maker, reader: ExpressionReader) -> tuple[str, str, HistField]:
        """Return the variable of a parameter, after the system and event with which it was named."""
        system = event = ""
        word = parameter
        if "." in parameter:
            system, _, rest = parameter.partition(".")
            event, dot, word = rest.partition(".")
            if not dot:
                raise refuse(errno.EINVAL)
        elsewhere = (system, event)
        if not system and self._text.handler == _MATCH:
            elsewhere = self._text.matched
        here = self._data.file.event
        is_own = not system or (system, event) == (here.system, here.name)
        if word.startswith("$"):
            variable = self._data.find_variable(word[1:]) if is_own else None
            if variable is None:
                variable = reader.find_variable(*elsewhere, word[1:])
            if variable is None:
                raise refused(maker.complain, HistFault.PARAM_NOT_FOUND, word[1:])
            return system, event, variable
        if is_own and (variable := self._field_here(word, maker, reader)) is not None:
            return system, event, variable
        if not elsewhere[1]:
            raise refuse(errno.EINVAL)
        return system, event, maker.field_of(*elsewhere, word, reader)

    def _field_here(self, name: str, maker: Maker, reader: ExpressionReader) -> HistField | None:
        """Make a variable of a field of this event; return None, with a fault in the log, if that can't be done."""
        try:
            made = self._field_variable(name, maker, reader)
        except OSError:
            return None
        self._data.field_variables.append(made)
        return made.variable

    def _field_variable(self, name: str, maker: Maker, reader: ExpressionReader) -> FieldVariable:
        try:
            value = reader.atom(name, VARIABLE)
        except OSError:
            maker.complain(HistFault.FIELD_VAR_PARSE_FAIL, name)
            raise
        if maker.has_variable(name):
            raise refused(maker.complain, HistFault.VAR_CREATE_FIND_FAIL, name)
        variable = make_variable(self._data, name, value.size, value.type)  # the sign gets lost
        variable.flags |= value.flags & STACKTRACE
        return FieldVariable(variable, value)

    # at a hit

    def run(self, element: Element, key: bytes, sample: Sample) -> None:
        if self._text.handler != _MATCH:
            assert self._watched is not None
            assert self._tracked is not None
            value = sample.values[self._watched.slot]
            old = element.variables.get(self._tracked.index, 0)
            address = RECORD_ADDRESS + STRING_SIZE * element.number  # what a string counts as
            number, before = value if isinstance(value, int) else address, old if isinstance(old, int) else 0
            if number == before or (self._text.handler == _MAX and number < before):
                return
            element.variables[self._tracked.index] = number
            if self._saves:
                set_variables(element, self._data.saved, sample)
                return
            if self._snaps:
                self._take_snapshot(number, element)
                return
        if self._target is not None:
            self._target.emit([sample.values[argument.slot] for argument in self._arguments], sample)

    def _take_snapshot(self, number: int, element: Element) -> None:
        seen = self._snapshot[0] if self._snapshot else 0
        if number == seen or (self._text.handler == _MAX and number < seen):
            return
        self._snapshot = number, key_text(self._data, element)
        self._data.file.instance.swap_snapshot()

    def end(self) -> None:
        instance = self._data.file.instance
        if instance.snapshot_condition is self:
            instance.snapshot_condition = None
        if self._target is not None:
            self._target.hold(-1)

    # shown

    def spec(self) -> str:
        text = self._text
        words: Sequence[str] = text.parameters
        if self._saves:
            words = [saved.variable.variable for saved in self._data.saved]
        return f":{text.handler}({text.about}).{text.name}({','.join(words)})"

    def details(self, element: Element) -> str:
        text = self._text
        if text.handler == _MATCH or self._snaps:
            return ""
        assert self._tracked is not None
        tracked = element.variables.get(self._tracked.index, 0)
        shown = f"\n\t{_WORDS[text.handler]}: {tracked if isinstance(tracked, int) else 0:10}"
        for variable, value in self._data.saved:
            kept = element.variables.get(variable.index, 0)
            if value.flags & STRING or (value.flags & EXECNAME and isinstance(kept, bytes)):
                string = kept if isinstance(kept, bytes) else b""
                shown += f"  {variable.variable}: {string.decode('latin-1'):<32}"
            else:
                if value.flags & STACKTRACE:
                    kept = RECORD_ADDRESS
                shown += f"  {variable.variable}: {kept if isinstance(kept, int) else 0:10}"
        return shown

    def summary(self) -> str:
        if self._snapshot is None:
            return ""
        number, key = self._snapshot
        return (
            "\nSnapshot taken (see tracing/snapshot).  Details:\n"
            f"\ttriggering value {{ {self._text.handler}({self._text.about}) }}: {number:10}"
            f"\ttriggered by event with key: {key}\n"
        )

    def match_key(self) -> tuple[object, ...]:
        return tuple(self._text)
