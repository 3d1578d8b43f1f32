"""The fields of a hist trigger: `dfd.hex`, `ptr.sym-offset`, `common_timestamp.usecs`, `dfd+flags`.

Sources: parse_field(), parse_atom() and hist_field_print() in kernel/trace/trace_events_hist.c of 6.1;
fixtures/triggers.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kprobe_sim.field import Field
from kprobe_sim.kstrto import kstrtoul
from kprobe_sim.node import refuse

_OPERATOR = re.compile(r"([-+*/])")
_PLAIN_MODIFIERS = frozenset({"hex", "sym", "sym-offset", "syscall", "log2", "usecs"})
_VALUE_ONLY = ("percent", "graph")
_NOT_OF_VALUES = frozenset({"buckets", "log2", "sym", "sym-offset", "syscall"})
_STRING_SIZE, _STACK_SIZE, _NUMBER_SIZE = 256, 128, 8
STACKTRACE = "stacktrace"
TIMESTAMP = "common_timestamp"
CPU = "common_cpu"

Complain = Callable[[str, str], None]  # (message, the text that the caret goes to; "" for the start)


class HistField(NamedTuple):
    """A key, value or variable of a histogram."""

    name: str  # as `sort` names it
    modifier: str = ""
    buckets: int = 0
    variable: str = ""
    field: Field | None = None

    def text(self) -> str:
        """Return it as the trigger file shows it."""
        text = f"{self.variable}={self.name}" if self.variable else self.name
        text += f".{self.modifier}" if self.modifier else ""
        return f"{text}={self.buckets}" if self.buckets else text

    @property
    def key_size(self) -> int:
        """The bytes that it takes in a key."""
        if self.name.endswith(STACKTRACE):
            return _STACK_SIZE
        return _STRING_SIZE if self.field is not None and self.field.is_string else _NUMBER_SIZE


class FieldReader:
    """Reads the fields of one event's histogram."""

    def __init__(self, fields: Mapping[str, Field], complain: Complain, *, common_stacktrace: bool) -> None:
        self._fields = fields
        self._complain = complain
        self._common_stacktrace = common_stacktrace

    def key(self, text: str) -> HistField:
        """Read a key.  Raises OSError EINVAL; ENOSYS for what isn't simulated."""
        if text == STACKTRACE or (self._common_stacktrace and text == f"common_{STACKTRACE}"):
            return HistField(f"common_{STACKTRACE}" if self._common_stacktrace else STACKTRACE)
        return self._expression(text, is_key=True)

    def value(self, text: str) -> HistField:
        """Read a value."""
        found = self._expression(text, is_key=False)
        if found.modifier in _NOT_OF_VALUES:
            self._fail("Invalid field modifier", text)
        return found

    def variable(self, name: str, text: str) -> HistField:
        """Read what is assigned to a variable."""
        found = self._expression(text, is_key=True)
        if found.modifier in ("buckets", "log2"):
            self._fail("Invalid field modifier", text)
        return found._replace(variable=name)

    def _expression(self, text: str, *, is_key: bool) -> HistField:
        parts = _OPERATOR.split(text.replace(".sym-offset", ".symXoffset"))
        if len(parts) == 1:
            return self._atom(parts[0], is_key=is_key)
        if len(parts) > 3 or not parts[0]:
            raise refuse(errno.ENOSYS)  # longer expressions aren't simulated: say so
        for atom in (self._atom(parts[0], is_key=is_key), self._atom(parts[2], is_key=is_key)):
            if atom.modifier or (atom.field is not None and atom.field.is_string):
                raise refuse(errno.ENOSYS)
        return HistField(text)

    def _atom(self, text: str, *, is_key: bool) -> HistField:
        if text[:1].isdecimal():
            return HistField(str(kstrtoul(text)))
        if text.startswith("$"):
            self._complain("Couldn't find variable", text[1:])
            self._fail("Couldn't find field", text)
        if text.count(".") > 1:
            raise refuse(errno.ENOSYS)  # variables of other events
        name, dot, modifier = text.partition(".")
        buckets = 0
        if dot:
            modifier, buckets = self._modifier(name, modifier.replace("symXoffset", "sym-offset"), is_key=is_key)
        if name in (TIMESTAMP, CPU):
            return HistField(name, modifier, buckets)
        if name in ("cpu", "CPU"):
            return HistField(CPU, modifier, buckets)
        field = self._fields.get(name)
        if field is None or not field.size:
            self._fail("Couldn't find field", name)
        return HistField(name, modifier, buckets, "", field)

    def _modifier(self, name: str, modifier: str, *, is_key: bool) -> tuple[str, int]:
        if modifier in _PLAIN_MODIFIERS or (modifier == "execname" and name == "common_pid"):
            return modifier, 0
        if modifier.startswith("bucket"):
            rest = modifier.removeprefix("bucket").removeprefix("s")
            if not rest.startswith("="):
                self._fail("Invalid field modifier", rest)
            try:
                buckets = kstrtoul(rest[1:])
            except OSError:
                buckets = 0
            if not buckets:
                self._fail("Invalid field modifier", rest[1:])
            return "buckets", buckets
        for known in _VALUE_ONLY:
            if modifier.startswith(known) and not is_key:
                return known, 0
        self._fail("Invalid field modifier", modifier)
        raise AssertionError("not reached")

    def _fail(self, message: str, at: str) -> None:
        self._complain(message, at)
        raise refuse(errno.EINVAL)
