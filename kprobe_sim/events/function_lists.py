"""The lists of functions that one instance traces, as set_ftrace_filter and the like hold them."""

from __future__ import annotations


class FunctionLists:
    """The lists of one instance, by file name."""

    def __init__(self) -> None:
        self._chosen: dict[str, frozenset[str]] = {}
        self.version = 0

    def chosen(self, name: str) -> frozenset[str]:
        """Return the functions of one list; none stands for no choice."""
        return self._chosen.get(name, frozenset())

    def choose(self, name: str, functions: frozenset[str]) -> None:
        """Set one list."""
        self._chosen[name] = functions
        self.version += 1

    def traces(self, function: str) -> bool:
        """True if the function tracer records a function, as far as its name goes."""
        wanted = self.chosen("set_ftrace_filter")
        return (not wanted or function in wanted) and function not in self.chosen("set_ftrace_notrace")
