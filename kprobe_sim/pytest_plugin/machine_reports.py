"""The report of a pytest run on its machines: which failed, and which tests left them unfit for others."""

from __future__ import annotations

from typing import Any

__all__ = ["MachineReports"]

_TESTS_FAILED = 1  # pytest's exit status


class MachineReports:
    """The machines that failed in this run or had to be replaced, its workers' included.

    A worker's notes come to the process that shows them with the reports of tests, as the reports' attributes.
    """

    def __init__(self) -> None:
        self._failed: list[tuple[str, str]] = []
        self._statuses: list[int] = []
        self._others = 0
        self._left: list[tuple[str, str]] = []
        self._noted: list[tuple[str, str]] = []

    def note(self, test: str, left: str) -> None:
        """Note what a test left that can't be undone; it goes with the next report."""
        self._noted.append((test, left))

    def add_to(self, report: Any) -> None:
        """Give a report what was noted since the last."""
        if self._noted:
            report.left_by_tests = self._noted
            self._noted = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._left += [(test, left) for test, left in getattr(report, "left_by_tests", ())]
        if report.failed:
            fault = getattr(report, "guest_fault", None)
            if fault is None:
                self._others += 1
            else:
                self._failed.append((fault[0], report.nodeid))
                self._statuses.append(fault[1])

    def pytest_sessionfinish(self, session: Any) -> None:
        """If nothing failed but machines, the status is that which `kprobe-vm run` has then."""
        if self._statuses and not self._others and session.exitstatus == _TESTS_FAILED:
            session.exitstatus = self._statuses[0]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._left:
            terminalreporter.section("what tests left and could not be undone; guests were replaced")
            for test, left in self._left:
                terminalreporter.line(f"{test}: {left}")
        if self._failed:
            terminalreporter.section("guests that failed, which says nothing about the tests")
            for kind, where in self._failed:
                terminalreporter.line(f"{kind}: {where}")
