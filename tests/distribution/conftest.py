"""Says at the end of a run on which versions of Python the wheel could not be tried."""

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in terminalreporter.stats.get("skipped", []):
        if "tests/distribution" in report.nodeid and isinstance(report.longrepr, tuple):
            terminalreporter.write_line(f"NOT TRIED: {report.nodeid}: {report.longrepr[2]}", yellow=True)
