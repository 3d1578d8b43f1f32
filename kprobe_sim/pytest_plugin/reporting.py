"""What becomes of a test: how long it may wait, and how its failure is told."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from .options import limit
from .wrapping import wrapping

if TYPE_CHECKING:
    from kprobe_sim.pytest_plugin.machine_reports import MachineReports
    from kprobe_sim.pytest_plugin.unsupported import Unsupported


@wrapping
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Note on the report if what failed is the machine and not what runs on it, and what tests left on it."""
    with contextlib.nullcontext() if call.excinfo is None else _told(item, call.excinfo):
        report = yield
    reports(item.config).add_to(report)
    if call.excinfo is not None:
        unsupported(item.config).look_at(item.nodeid, call.excinfo.value, report)
        error = call.excinfo.value
        if any(
            kind.__module__ == "kprobe_vm.errors" and kind.__name__ == "MachineError" for kind in type(error).__mro__
        ):
            report.guest_fault = (type(error).__name__, getattr(error, "exit_status", 1))
    return report


@wrapping
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Limit how long a test waits, whether by a trace of the tracer's or by a read of a simulated file."""
    from kprobe.tracing.waiting import Limited
    from kprobe_sim.tree.files.patience import Patience, limited

    seconds = limit(item)
    with Limited(seconds), limited(None if seconds is None else Patience(seconds, _overdue)):
        return (yield)


def _overdue(seconds: float, tracefs: Any, path: str) -> BaseException:
    """Return the failure of a test that has waited too long: what code under test can't mean to catch."""
    from kprobe_sim.pytest_plugin.waits import overdue

    return pytest.fail.Exception(overdue(seconds, tracefs, path))


@wrapping
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail a test of whose threads one has waited too long, or in which the failure was caught."""
    from kprobe_sim.tree.files.patience import patience

    result = yield
    limit = patience()
    if limit is not None and limit.late is not None:
        pytest.fail(str(limit.late), pytrace=False)
    return result


def pytest_report_teststatus(report: Any) -> tuple[str, str, str] | None:
    """Show a machine that failed in another way than a test that did."""
    fault = getattr(report, "guest_fault", None)
    if fault is None or not report.failed:
        return None
    return "failed" if report.when == "call" else "error", "G", f"GUEST FAILED ({fault[0]})"


@contextlib.contextmanager
def _told(item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException]) -> Iterator[None]:
    """Have a refusal shown in the kernel's words, without our frames."""
    from kprobe_sim.pytest_plugin.refusals import noted, told

    values = getattr(item, "funcargs", {})
    owner = values.get("sys_kernel_tracing") or values.get("simulated_machine")
    tracefs = values.get("tracefs") if owner is None else owner.tracefs
    if isinstance(excinfo.value, OSError) and tracefs is not None:
        from kprobe.events.refusal import words

        with contextlib.suppress(Exception):  # the machine may have died of it
            noted(excinfo, tracefs, words)
    if item.config.getoption("fulltrace"):
        yield
        return
    with told(excinfo, pytest.fail.Exception):
        yield


def reports(config: pytest.Config) -> MachineReports:
    found: MachineReports = config.pluginmanager.getplugin("kprobe machines")
    return found


def unsupported(config: pytest.Config) -> Unsupported:
    found: Unsupported = config.pluginmanager.getplugin("kprobe unsupported")
    return found
