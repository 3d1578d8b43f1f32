"""Generated operations on a simulator and on a kernel, compared answer by answer."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TextIO

from kprobe_vm.cases import AREAS, Cases
from kprobe_vm.errors import MachineDied
from kprobe_vm.found import write_test
from kprobe_vm.operation import Observed, Operation, Outcome
from kprobe_vm.side import Side, open_backend

__all__ = ["Campaign", "Difference", "add_parser"]


_SHRINK_SECONDS = 8.0
_BYTES = re.compile(rb"(?m)^bytes: (\d+)$")
_TIME_EXTEND = 8  # bytes in the ring buffer
_RUN = re.compile(r"(.)\1{20,}")


class Difference(NamedTuple):
    """The first answers in which two sides differ, after the operations that lead there."""

    area: str
    operations: list[Operation]
    asked: str
    simulator: Any
    kernel: Any
    answers: list[Outcome] = []  # the kernel's, to all operations

    def signature(self) -> tuple[str, str, str, str]:
        """Return what distinguishes one difference from another: answers without numbers and names."""
        last = self.operations[-1]
        kind = f"{type(last).__name__} {getattr(last, 'path', '').rpartition('/')[2]}"
        return (
            self.area,
            f"{kind} {self.asked.rpartition('/')[2]}",
            _sketch(self.simulator, self.kernel),
            _sketch(self.kernel, self.simulator),
        )

    def text(self) -> str:
        """Return it in words."""
        lines = [f"--- {self.area}: {self.asked}", *(f"    {_brief(operation)}" for operation in self.operations)]
        ours, theirs = _contrast(self.simulator, self.kernel)
        return "\n".join([*lines, f"  sim:    {_brief(ours)}", f"  kernel: {_brief(theirs)}"])


def _brief(value: Any) -> str:
    """Return a value's text with long runs of one character cut."""
    text = _RUN.sub(lambda match: f"{match[1]}<{len(match[0])}>", repr(value))
    return text if len(text) <= 1600 else f"{text[:1000]} ... {text[-500:]}"


def _lines(answer: Any) -> list[Any]:
    return answer.splitlines() if isinstance(answer, bytes) else answer if isinstance(answer, list) else [answer]


def _contrast(ours: Any, theirs: Any) -> tuple[Any, Any]:
    if not isinstance(ours, bytes) or not isinstance(theirs, bytes):
        return ours, theirs
    mine, yours = _lines(ours), _lines(theirs)
    return (
        [line for line in mine if line not in yours] or ours,
        [line for line in yours if line not in mine] or theirs,
    )


def _sketch(ours: Any, theirs: Any) -> str:
    if isinstance(ours, bytes) and isinstance(theirs, bytes):
        shown = _contrast(ours, theirs)[0]
        first = shown[0] if isinstance(shown, list) and shown else shown
        return (
            "".join("0" if chr(c).isdigit() else chr(c) for c in first[-40:])
            if isinstance(first, bytes)
            else str(first)
        )
    return str(ours)[:30] if isinstance(ours, bytes | list) else str(ours)


def first_difference(area: str, operations: Sequence[Operation], left: Side, right: Side) -> Difference | None:
    """Run operations on two sides until an answer differs."""
    done: list[Operation] = []
    answers: list[Outcome] = []
    for operation in operations:
        if isinstance(operation, Observed):
            if operation.hits is None:
                operation = right.observe(operation)
            if not all(hit.whole for hit in operation.hits or ()):
                return None
            left.replay(operation)
            done.append(operation)
            answers.append([])
            continue
        done.append(operation)
        ours, theirs = _guarded(left, operation), right.run(operation)
        answers.append(theirs)
        found = _unequal(ours, theirs)
        if found is not None:
            return Difference(area, done, *found, answers)
    return None


def _forgotten(operation: Operation) -> Operation:
    """Return an operation without what was seen when it was done."""
    return operation._replace(hits=None) if isinstance(operation, Observed) else operation


def _guarded(side: Side, operation: Operation) -> Outcome:
    """Run an operation on the simulator; a fault of its own is an answer like another, and no kernel's."""
    try:
        return side.run(operation)
    except Exception as error:
        return [("", f"{type(error).__name__}: {error}")]


def _unequal(ours: Outcome, theirs: Outcome) -> tuple[str, Any, Any] | None:
    for mine, yours in zip(ours, theirs, strict=False):
        if mine[0] != yours[0]:
            return f"{mine[0]} | {yours[0]}", mine[1], yours[1]
        if mine[1] != yours[1] and not _apart_in_time_only(mine[1], yours[1]):
            return mine[0], mine[1], yours[1]
    if len(ours) != len(theirs):
        return "count of answers", len(ours), len(theirs)
    return None


def _apart_in_time_only(ours: Any, theirs: Any) -> bool:
    """Return whether two texts of `stats` differ by time extends: 8 bytes for each pause of 134 ms between records."""
    if not isinstance(ours, bytes) or not isinstance(theirs, bytes):
        return False
    mine, yours = _BYTES.search(ours), _BYTES.search(theirs)
    if mine is None or yours is None or _BYTES.sub(b"", ours) != _BYTES.sub(b"", theirs):
        return False
    return (int(mine[1]) - int(yours[1])) % _TIME_EXTEND == 0


class Campaign:
    """A guest, a simulator made anew when the two have parted, and a source of cases."""

    def __init__(self, kernel: str, seed: int, *, progress: Callable[[str], None] = lambda line: None) -> None:
        from kprobe_vm.quiet import quiet_guest  # takes the extra [vm], which other verbs don't

        self._spec = f"sim:{kernel}"
        simulated = open_backend("kprobe.tracefs", self._spec)
        self.release: str = simulated.kernel.release  # answers are those of one build, so the guest runs no other
        simulated.close()
        self._guest = partial(quiet_guest, self.release, progress=progress)
        self._vm, self._places = self._guest()
        # 5.10 counts a fault while a probe is handled as a miss, see docs/campaign.md; it has a handler for that
        faults_reported = "kprobe_fault_handler" not in {name for name, _ in self._places.text}
        self._cases = Cases(Random(seed), self._places, faults_reported=faults_reported)
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
        from kprobe_vm.shrink import shrink  # takes the extra [campaign]

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


def open_backend_workload(tracefs: Any) -> Any:
    """Return the task on a simulated kernel, through its entry point; None where that isn't installed."""
    from importlib.metadata import entry_points

    for point in entry_points(group="kprobe.workload"):
        if point.name == "sim":
            return point.load()(tracefs)
    return None


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
        import kprobe_vm.shrink  # noqa: F401  # says before a kernel boots what it lacks
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
                if found.answers:  # who goes down has given none
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
