"""The report of a pytest run on its machines: those that failed, and the tests that left them unusable."""

from __future__ import annotations

from typing import Any

_TESTS_FAILED = 1  # pytest's exit status


class MachineReports:
    """The machines that failed or had to be replaced, including those of pytest-xdist's workers.

    A worker sends its notes to the main process as attributes of the tests' reports.
    """

    def __init__(self) -> None:
        self._failed: list[tuple[str, str]] = []
        self._statuses: list[int] = []
        self._others = 0
        self._left: list[tuple[str, str]] = []
        self._noted: list[tuple[str, str]] = []

    def note(self, test: str, left: str) -> None:
        """Note what a test left that can't be undone, for the next report."""
        self._noted.append((test, left))

    def add_to(self, report: Any) -> None:
        """Attach to a report what was noted since the last one."""
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
        """Exit with the status of `kprobe-vm run` if only machines failed."""
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
