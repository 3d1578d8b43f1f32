"""The records of several CPUs, in the order of time."""

from collections.abc import Iterator
from operator import itemgetter
from typing import Final

from kprobe.pages.page import Stamped
from kprobe.text.records import Record

_TIME: Final = itemgetter(0)


def merged(cpus: list[Iterator[list[Stamped]]]) -> Iterator[Record]:
    """Merge what each CPU's iterator gives, page by page; of records of one time the first CPU's come first.

    One page of each CPU is held.
    """
    held: dict[int, list[Stamped]] = {}

    def load(cpu: int) -> None:
        for page in cpus[cpu]:
            if page:
                held[cpu] = page
                return
        held.pop(cpu, None)

    for cpu in range(len(cpus)):
        load(cpu)
    while held:
        # all that comes later, on any CPU, is later than this
        bound, nearest = min((page[-1][0], cpu) for cpu, page in held.items())
        ready = []
        for cpu in sorted(held):
            page = held[cpu]
            if cpu == nearest or page[-1][0] == bound:
                ready += page
                load(cpu)
            elif page[0][0] <= bound:
                until = next(i for i, (stamp, _) in enumerate(page) if stamp > bound)
                ready += page[:until]
                held[cpu] = page[until:]
        ready.sort(key=_TIME)
        for _, record in ready:
            yield record


class Holding:
    """Records of several CPUs as they come: what a CPU may still have something before is held back.

    A round is one look at every CPU.  What was seen in an earlier round is older than all that comes after this one.
    """

    def __init__(self, cpus: int) -> None:
        self._held: list[Stamped] = []
        self._seen = 0
        self._cpus = cpus

    def round(self, came: list[list[Stamped]], undrained: list[int]) -> list[Record]:
        """Take what each CPU gave in this round, in the order of CPUs, and return what no other record can precede.

        ``undrained`` has the last time of each CPU that has more.  A round in which nothing came releases everything.
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

    def rest(self) -> list[Record]:
        """Return what is still held: no other round comes."""
        ready, self._held = self._held, []
        return self._in_order(ready)

    def _in_order(self, ready: list[Stamped]) -> list[Record]:
        if self._cpus > 1:
            ready.sort(key=_TIME)
        return [record for _, record in ready]
