"""The records of several CPUs, in the order of time."""

from collections.abc import Iterator
from heapq import heappop, heappush
from operator import itemgetter
from typing import Final

from kprobe_text.pages.page import Stamped
from kprobe_text.text.records import Record

_TIME: Final = itemgetter(0)


def merged(cpus: list[Iterator[list[Stamped]]]) -> Iterator[Record]:
    """Merge the parts that each CPU's iterator yields; of records with the same time, the first CPU's come first.

    One part of each CPU is held.
    """
    parts = _Waiting(cpus)
    while parts.lasts:
        # all records still to come, on any CPU, are later than this
        bound = parts.lasts[0][0]
        ready: list[Stamped] = []
        for cpu in parts.begun(bound):
            ready += parts.until(bound, cpu)
        ready.sort(key=_TIME)
        for _, record in ready:
            yield record


class _Waiting:
    """The part held for each CPU; `firsts` and `lasts` are heaps of times with their CPUs."""

    def __init__(self, cpus: list[Iterator[list[Stamped]]]) -> None:
        self._cpus = cpus
        self._held: list[list[Stamped]] = [[] for _ in cpus]
        self._given = [0] * len(cpus)  # the number of records in the part
        self.firsts: list[tuple[int, int]] = []  # of the records not yet returned
        self.lasts: list[tuple[int, int]] = []
        for cpu in range(len(cpus)):
            self._load(cpu)

    def _load(self, cpu: int) -> None:
        self._held[cpu] = part = next((part for part in self._cpus[cpu] if part), [])
        self._given[cpu] = 0
        if part:
            heappush(self.firsts, (part[0][0], cpu))
            heappush(self.lasts, (part[-1][0], cpu))

    def begun(self, bound: int) -> list[int]:
        """Return the CPUs that have records up to a time."""
        found = set()
        for heap in (self.firsts, self.lasts):
            while heap and heap[0][0] <= bound:
                found.add(heappop(heap)[1])
        return sorted(found)

    def until(self, bound: int, cpu: int) -> list[Stamped]:
        """Return a CPU's records up to a time, the whole part if it ends by then."""
        part, given = self._held[cpu], self._given[cpu]
        if not part:  # returned before, as its times were out of order
            return part
        if part[-1][0] == bound:
            self._load(cpu)
            return part[given:] if given else part
        until = given
        while part[until][0] <= bound:
            until += 1
        self._given[cpu] = until
        heappush(self.firsts, (part[until][0], cpu))
        return part[given:until]


class Holding:
    """Records of several CPUs as they come: a record is held back while a CPU may still have an earlier one.

    A round reads every CPU once.  Records of an earlier round are older than all that follow this one.
    """

    def __init__(self, cpus: int) -> None:
        self._held: list[Stamped] = []
        self._seen = 0
        self._cpus = cpus

    def round(self, came: list[list[Stamped]], undrained: list[int]) -> list[Record]:
        """Take each CPU's records of this round, in the order of CPUs; return those that no other record can precede.

        ``undrained`` has the last time of each CPU that has more.  A round without records releases everything.
        """
        before = self._seen
        for page in came:
            self._held += page
            self._seen = max([self._seen, *map(_TIME, page)])
        if self._cpus == 1 or not any(came):
            ready, self._held = self._held, []
        else:
            bound = min([before, *undrained])
            ready = [item for item in self._held if item[0] <= bound]
            self._held = [item for item in self._held if item[0] > bound]
        return self._in_order(ready)

    def remaining(self) -> list[Record]:
        """Return what is still held, after the last round."""
        ready, self._held = self._held, []
        return self._in_order(ready)

    def _in_order(self, ready: list[Stamped]) -> list[Record]:
        if self._cpus > 1:
            ready.sort(key=_TIME)
        return [record for _, record in ready]
