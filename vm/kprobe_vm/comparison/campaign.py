"""Generated operations on a simulator and on a kernel, compared answer by answer."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TextIO

from kprobe_vm.comparison.difference import Difference, first_difference
from kprobe_vm.comparison.found import write_test
from kprobe_vm.errors import MachineDied
from kprobe_vm.generators.cases import AREAS, Cases
from kprobe_vm.sides.operation import Observed, Operation
from kprobe_vm.sides.side import Side, open_backend, open_backend_workload

__all__ = ["Campaign", "add_parser"]


_SHRINK_SECONDS = 8.0


def _forgotten(operation: Operation) -> Operation:
    """Return an operation without what was seen when it was done."""
    return operation._replace(hits=None) if isinstance(operation, Observed) else operation


class Campaign:
    """A guest, a simulator made anew when the two have parted, and a source of cases."""

    def __init__(self, kernel: str, seed: int, *, progress: Callable[[str], None] = lambda line: None) -> None:
        from kprobe_vm.sides.quiet import quiet_guest  # takes the extra [vm], which other verbs don't

        self._spec = f"sim:{kernel}"
        simulated = open_backend("kprobe.tracefs", self._spec)
        self.release: str = simulated.kernel.release  # answers are those of one build, so the guest runs no other
        simulated.close()
        self._guest = partial(quiet_guest, self.release, progress=progress)
        self._vm, self._symbols = self._guest()
        # 5.10 counts a fault while a probe is handled as a miss, see docs/campaign.md; it has a handler for that
        faults_reported = "kprobe_fault_handler" not in {name for name, _ in self._symbols.text}
        self._cases = Cases(Random(seed), self._symbols, faults_reported=faults_reported)
        self._sim = self._fresh()
        self.operations = 0
        self.differences: Counter[str] = Counter()
        self.seen: dict[tuple[str, ...], Difference] = {}

    def _fresh(self) -> Side:
        tracefs = open_backend("kprobe.tracefs", self._spec)
        return Side(tracefs, open_backend_workload(tracefs))

    def step(self, area: str = "", *, shrunk: bool = True) -> Difference | None:
        """Run one case; return a difference that was not seen before, shrunk."""
        case = self._cases.next(area)
        try:
            self._put_back()
            found = first_difference(case.area, case.operations, self._sim, self._vm)
        except MachineDied as died:
            said = str(died).partition("\n")[0]
            found = Difference(case.area, case.operations, "the kernel went down", "it goes on", said)
            shrunk = False
            self._replace_guest()
        self.operations += len(case.operations)
        if found is None:
            return None
        self.differences[case.area] += 1
        known = found.signature() in self.seen
        self.seen.setdefault(found.signature(), found)
        self._sim = self._fresh()
        if known:
            return None
        return self._shrunk(found) if shrunk else found

    def _put_back(self, *, fresh: bool = False) -> None:
        """Let both sides be as at the start; a `fresh` simulator is another one."""
        try:
            self._vm.reset()
            if not fresh:
                self._sim.reset()
                return
        except OSError:  # some histograms show what the kernel doesn't take again, and so can't be removed
            self._replace_guest()
        self._sim = self._fresh()

    def _replace_guest(self) -> None:
        self._vm.close()
        self._vm = self._guest().side

    def _shrunk(self, found: Difference) -> Difference | None:
        from kprobe_vm.comparison.shrink import shrink  # takes the extra [campaign]

        wanted = found.signature()[1]
        differences: list[tuple[list[Operation], Difference]] = []
        end = time.monotonic() + _SHRINK_SECONDS

        def differs(operations: Sequence[Operation]) -> bool:
            if time.monotonic() > end:
                return False
            self._put_back(fresh=True)
            again = [_forgotten(operation) for operation in operations]
            difference = first_difference(found.area, again, self._sim, self._vm)
            if difference is None or difference.signature()[1] != wanted:
                return False
            differences.append((list(operations), difference))
            return True

        if not differs(found.operations):
            return found._replace(area=f"{found.area} (not seen again)")
        smallest = shrink(found.operations, differs)
        best = next(difference for operations, difference in differences if operations == smallest)
        self._sim = self._fresh()
        known = best.signature() in self.seen and best.signature() != found.signature()
        self.seen[best.signature()] = best
        return None if known else best

    def close(self) -> None:
        """End the guest."""
        self._sim.close()
        self._vm.close()


def add_parser(verbs: Any) -> None:
    """Add the verb `diff` to the command."""
    verb = verbs.add_parser("diff", help="do generated operations on a simulator and on a kernel, and compare")
    verb.add_argument("--kernel", default="6.1", metavar="KERNEL")
    verb.add_argument("--seconds", type=float, default=60.0, metavar="N", help="end after that time (60)")
    verb.add_argument("--operations", type=int, default=0, metavar="N", help="end after that many operations")
    verb.add_argument("--seed", type=int, default=0, metavar="S", help="the same seed gives the same operations (0)")
    verb.add_argument("--area", choices=list(AREAS), default="", help="only operations of one kind")
    verb.add_argument("--tests", default="differences", metavar="DIR", help="write a test of each (differences)")
    verb.add_argument("--no-shrink", action="store_true", help="show differences as they were found")
    verb.set_defaults(function=_diff)


def _diff(options: argparse.Namespace) -> int:
    if not options.no_shrink:
        import kprobe_vm.comparison.shrink  # noqa: F401  # says before a kernel boots what it lacks
    start = time.monotonic()
    campaign = Campaign(options.kernel, options.seed, progress=options.progress)
    shown = time.monotonic()
    try:
        while time.monotonic() - start < options.seconds and not (
            options.operations and campaign.operations >= options.operations
        ):
            found = campaign.step(options.area, shrunk=not options.no_shrink)
            if found is not None:
                print(found.text(), flush=True)
                if found.answers:  # a kernel that went down has given none
                    test = write_test(found, options.kernel, campaign.release, options.seed, Path(options.tests))
                    print(f"  test:   {test} (to be renamed after the rule that it shows)", flush=True)
            if sys.stderr.isatty() and time.monotonic() - shown > 1:
                shown = time.monotonic()
                _show(sys.stderr, campaign)
    finally:
        campaign.close()
    print(
        f"{campaign.operations} operations in {time.monotonic() - start:.0f} s, seed {options.seed}; differences: "
        + (", ".join(f"{area} {count}" for area, count in campaign.differences.items()) or "none")
    )
    return 1 if campaign.differences else 0


def _show(stream: TextIO, campaign: Campaign) -> None:
    stream.write(f"\r{campaign.operations} operations, {campaign.differences.total()} differences ")
    stream.flush()
