"""The suite for kernels whose functions have other names: the same tests, with the names that this kernel has.

What a test writes, expects and counts is all made of its text.  So the name is changed there, before it runs, rather
than in what the kernel says: a position of a caret, the length of a line and so on are still the kernel's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import CellType, CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

__all__ = ["Renamed"]


class Renamed:
    """Makes of a test, and of values that it takes, those in which functions have other names: {in the suite: here}."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = dict(names)
        self._known: dict[int, tuple[Any, Any]] = {}  # by identity; the original is kept, so that no other gets its own

    def of(self, value: Any) -> Any:
        """Return the same with the names changed; itself, if none is in it."""
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        if isinstance(value, str):
            for name, other in self._names.items():
                value = value.replace(name, other)
            return value
        if isinstance(value, bytes):
            return self.of(value.decode("latin-1")).encode("latin-1")
        if isinstance(value, tuple):
            items = [self.of(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        if isinstance(value, list | set | frozenset):
            return type(value)(self.of(item) for item in value)
        if type(value) is dict:
            return {self.of(key): self.of(item) for key, item in value.items()}
        if isinstance(value, re.Pattern):
            return re.compile(self.of(value.pattern), value.flags)
        if isinstance(value, ModuleType) and _is_own(vars(value)):
            return SimpleNamespace(**self._globals(vars(value)))
        return self._function(value) if isinstance(value, FunctionType) else value

    def _function(self, function: FunctionType) -> FunctionType:
        closure = tuple(map(self._cell, function.__closure__ or ()))
        where = self._globals(function.__globals__)
        if (known := self._known.get(id(function))) is not None:  # it was among its module's
            return known[1]  # type: ignore[no-any-return]  # what is kept of a function is one
        made = FunctionType(self._code(function.__code__), where, function.__name__, None, closure or None)
        self._known[id(function)] = function, made
        made.__defaults__, made.__kwdefaults__ = self.of(function.__defaults__), self.of(function.__kwdefaults__)
        made.__dict__.update(function.__dict__)
        return made

    def _code(self, code: CodeType) -> CodeType:
        consts = (self._code(const) if isinstance(const, CodeType) else self.of(const) for const in code.co_consts)
        return code.replace(co_consts=tuple(consts))

    def _cell(self, cell: CellType) -> CellType:
        return CellType(self.of(cell.cell_contents))

    def _globals(self, there: dict[str, Any]) -> dict[str, Any]:
        """Return those of a module of the suite with the names changed; others' modules stay as they are."""
        if not _is_own(there):
            return there
        known = self._known.get(id(there))
        if known is not None:
            return known[1]  # type: ignore[no-any-return]  # what is kept of globals is globals
        made: dict[str, Any] = dict(there)
        self._known[id(there)] = there, made
        for name, value in there.items():
            if not name.startswith("__"):
                made[name] = self.of(value)
        return made


def _is_own(there: Mapping[str, Any]) -> bool:
    return str(there["__name__"]).startswith(f"{__package__}.")
