"""Generated operations on a simulator and on a kernel, compared answer by answer."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from random import Random

from kprobe_lab.campaign.difference import Difference, first_difference
from kprobe_lab.generators.cases import Cases
from kprobe_lab.generators.ways import Ways
from kprobe_lab.operations.operation import Observed, Operation
from kprobe_lab.operations.reference import Reference, rows_of, simulated
from kprobe_vm.errors import MachineClosed, MachineDied

_SHRINK_SECONDS = 8.0


def _forgotten(operation: Operation) -> Operation:
    """Return an operation without the hits that were observed when it was performed."""
    return operation._replace(hits=None) if isinstance(operation, Observed) else operation


class Campaign:
    """A simulator, made anew when it and the reference have diverged, and a source of cases.

    The caller closes the reference.  The same seed gives the same operations.
    """

    def __init__(self, kernel: str, seed: int | str, reference: Reference) -> None:
        self._spec = f"sim:{kernel}"
        self.reference = reference
        ways = Ways.of({name for name, _ in reference.symbols.text}, rows_of(kernel))
        self._cases = Cases(Random(seed), reference.symbols, ways)
        self._sim = simulated(self._spec)
        self.operations = 0
        self.differences: Counter[str] = Counter()
        self._seen: set[tuple[str, ...]] = set()

    def step(self, area: str = "") -> Difference | None:
        """Run one case; return a difference that was not seen before."""
        case = self._cases.next(area)
        try:
            self._put_back()
            difference = first_difference(case.area, case.operations, self._sim, self.reference.side)
        except MachineClosed:  # we closed it ourselves
            raise
        except MachineDied as died:
            reason = str(died).partition("\n")[0]
            difference = Difference(case.area, case.operations, "the kernel went down", "it goes on", reason)
            self.reference.replace()
        self.operations += len(case.operations)
        if difference is None:
            return None
        self.differences[case.area] += 1
        self._sim = simulated(self._spec)
        if difference.signature() in self._seen:
            return None
        self._seen.add(difference.signature())
        return difference

    def _put_back(self, *, fresh: bool = False) -> None:
        """Put both sides back as they were at the start; `fresh` replaces the simulator instead."""
        try:
            self.reference.side.reset()
            if not fresh:
                self._sim.reset()
                return
        except OSError:  # some histograms print text that the kernel refuses when written back, so they stay
            self.reference.replace()
        self._sim = simulated(self._spec)

    def shrunk(self, original: Difference) -> Difference:
        """Return the smallest difference of its kind that can be found in a few seconds."""
        from kprobe_lab.campaign.shrink import shrink  # needs the extra [campaign]

        signature = original.signature()[1]
        differences: list[tuple[list[Operation], Difference]] = []
        end = time.monotonic() + _SHRINK_SECONDS

        def differs(operations: Sequence[Operation]) -> bool:
            if time.monotonic() > end:
                return False
            self._put_back(fresh=True)
            again = [_forgotten(operation) for operation in operations]
            difference = first_difference(original.area, again, self._sim, self.reference.side)
            if difference is None or difference.signature()[1] != signature:
                return False
            differences.append((list(operations), difference))
            return True

        if not differs(original.operations):
            return original._replace(area=f"{original.area} (not seen again)")
        smallest = shrink(original.operations, differs)
        return next(difference for operations, difference in differences if operations == smallest)
