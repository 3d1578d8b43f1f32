"""The lists of functions that one instance traces, as in set_ftrace_filter and similar files."""

from __future__ import annotations

from kprobe_sim.builds.functions import Functions
from kprobe_sim.named_tuple import NamedTuple


class Chosen(NamedTuple):
    """Some of the functions of a kernel, by number."""

    functions: Functions
    numbers: frozenset[int]

    def among(self, functions: Functions) -> Chosen:
        """Return the same functions among others: those of one name keep their order when functions come or move."""
        if functions is self.functions:
            return self
        kept: set[int] = set()
        for name in {self.functions.name(number) for number in self.numbers}:
            pairs = zip(self.functions.numbers(name), functions.numbers(name), strict=False)
            kept |= {new for old, new in pairs if old in self.numbers}
        return Chosen(functions, frozenset(kept))

    def has(self, name: str) -> bool:
        """Return whether a function is in the list."""
        return any(number in self.numbers for number in self.functions.numbers(name))


class FunctionLists:
    """The lists of one instance, by file name."""

    def __init__(self) -> None:
        self._chosen: dict[str, Chosen] = {}
        self._traced: dict[str, bool] = {}  # results of `traces`
        self._lines: dict[str, tuple[Functions, list[bytes]]] = {}  # results of `lines`, and what they are made from

    def chosen(self, name: str) -> Chosen | None:
        """Return the functions of one list, None if it is empty, which excludes nothing."""
        return self._chosen.get(name)

    def lines(self, name: str, functions: Functions) -> list[bytes]:
        """Return the lines of one list, in the order of all functions; the same object until the list changes."""
        known = self._lines.get(name)
        if known is None or known[0] is not functions:
            chosen = self._chosen.get(name)
            numbers = () if chosen is None else sorted(chosen.among(functions).numbers)
            known = self._lines[name] = (functions, functions.some_lines(numbers))
        return known[1]

    def choose(self, name: str, functions: Chosen | None) -> None:
        """Set one list."""
        self._traced.clear()
        self._lines.pop(name, None)
        if functions is None or not functions.numbers:
            self._chosen.pop(name, None)
        else:
            self._chosen[name] = functions

    def traces(self, function: str) -> bool:
        """Return True if the lists let the function tracer record a function."""
        known = self._traced.get(function)
        if known is None:
            chosen, excluded = self.chosen("set_ftrace_filter"), self.chosen("set_ftrace_notrace")
            known = (chosen is None or chosen.has(function)) and not (excluded is not None and excluded.has(function))
            self._traced[function] = known
        return known
