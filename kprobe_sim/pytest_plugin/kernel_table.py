"""The table at the end of a run on several tracefs: the tests whose results differ, and counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from .options import SIMULATOR_ONLY

_ABSENT = "-"
_ORDER = ("passed", "failed", "error", "guest failed", "skipped", "xfailed", "xpassed")


class KernelTable:
    """The result of each test on each tracefs; `specs` are their names in the tests' ids, in the order of the columns.

    A test that doesn't run on a tracefs doesn't differ there.  With pytest-xdist the main process has this table.
    """

    def __init__(self, specs: Sequence[str]) -> None:
        self._specs = list(dict.fromkeys(specs))
        names = "|".join(re.escape(spec) for spec in sorted(self._specs, key=len, reverse=True))
        self._part = re.compile(rf"(?<=[\[-])(?:{names})(?=[\]-])")
        self._outcomes: dict[str, dict[str, str]] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        start = report.nodeid.find("[")
        spec = self._part.search(report.nodeid, max(start, 0))
        if start < 0 or spec is None:
            return
        outcome = _outcome(report)
        others = report.nodeid[start + 1 : spec.start()] + report.nodeid[spec.end() : -1]  # the test's other parameters
        others = others.replace("--", "-").strip("-")
        test = report.nodeid[:start] + (f"[{others}]" if others else "")
        if outcome:
            self._outcomes.setdefault(test, {})[spec[0]] = outcome

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self._outcomes:
            return
        rows = [
            (test, [outcomes.get(spec, _ABSENT) for spec in self._specs])
            for test, outcomes in self._outcomes.items()
            if len(set(outcomes.values()) - {_ABSENT}) > 1
        ]
        counts = {spec: Counter(outcomes.get(spec) for outcomes in self._outcomes.values()) for spec in self._specs}
        totals = [(word, [str(counts[spec][word]) for spec in self._specs]) for word in _ORDER]
        totals = [(word, numbers) for word, numbers in totals if set(numbers) != {"0"}]
        terminalreporter.section("tests that differ between kernels")
        for line in _lines([("", self._specs), *(rows or [("none", [])]), ("", []), *totals]):
            terminalreporter.line(line)


def _outcome(report: Any) -> str:
    """Return a test's result by one of its reports; "" if that doesn't decide it."""
    if report.failed and getattr(report, "guest_fault", None) is not None:
        return "guest failed"
    if report.failed:
        return "failed" if report.when == "call" else "error"
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple | list) else ""
        return _ABSENT if reason.endswith(SIMULATOR_ONLY) else "skipped"
    return "passed" if report.when == "call" else ""


def _lines(rows: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    first = max(len(name) for name, _ in rows)
    width = max(len(cell) for _, cells in rows for cell in cells)
    return ["  ".join([name.ljust(first), *(cell.ljust(width) for cell in cells)]).rstrip() for name, cells in rows]
