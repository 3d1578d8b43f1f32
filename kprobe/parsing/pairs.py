"""Calls: which entry of a function belongs to which return, for each task."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from kprobe.text import Event

# How many tasks are followed, and how many entries of each without a return; the oldest are given up.
TASKS = 4096
DEPTH = 128


class Pairs:
    """Pairs entries with returns: in each task the last entry of a function that hasn't returned is the one that does.

    So nested and recursive calls are paired right. Where several probes sit on a function, the first of each kind that
    is seen counts.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[int, int], list[tuple[str, Event]]] = {}
        self._entries: dict[str, str] = {}
        self._returns: dict[str, str] = {}

    def take(self, event: Event) -> list[tuple[Event | None, Event | None]]:
        """Take an event, and say what it ends: pairs of entry and return, of which one is None where it wasn't seen.

        An event that isn't at a function's entry or return is a pair of itself and None.
        """
        place = event.address
        if place is None or place.offset:
            return [(event, None)]
        function = place.symbol or place.text
        # each CPU has an idle task, and all of them pid 0
        task = (event.pid, event.cpu if event.pid == 0 else -1)
        if event.caller is None:
            return self._enter(task, function, event)
        if self._named(self._returns, function, event.name) != event.name:
            return [(None, event)]
        calls = self._open.get(task, [])
        for i in range(len(calls) - 1, -1, -1):
            if calls[i][0] == function:
                ended: list[tuple[Event | None, Event | None]] = [(entry, None) for _, entry in calls[i + 1 :]]
                ended.append((calls[i][1], event))
                del calls[i:]
                if not calls:
                    del self._open[task]
                return ended
        return [(None, event)]

    def rest(self) -> Iterator[Event]:
        """Yield the entries that have no return."""
        for calls in self._open.values():
            yield from (entry for _, entry in calls)
        self._open = {}

    def _enter(self, task: tuple[int, int], function: str, event: Event) -> list[tuple[Event | None, Event | None]]:
        if self._named(self._entries, function, event.name) != event.name:
            return [(event, None)]
        given_up: list[tuple[Event | None, Event | None]] = []
        if task not in self._open and len(self._open) >= TASKS:
            oldest = next(iter(self._open))
            given_up += [(entry, None) for _, entry in self._open.pop(oldest)]
        calls = self._open.setdefault(task, [])
        if len(calls) >= DEPTH:
            given_up.append((calls.pop(0)[1], None))
        calls.append((function, event))
        return given_up

    @staticmethod
    def _named(names: dict[str, str], function: str, name: str) -> str:
        if function not in names and len(names) >= TASKS:
            names.clear()
        return names.setdefault(function, name)
