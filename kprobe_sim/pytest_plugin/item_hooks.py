"""The hooks around one test: they limit how long it waits, and shape the report of its failure."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from kprobe_sim.tree.files.tracefs import Tracefs

from .options import limit
from .wrapping import wrapping

if TYPE_CHECKING:
    from kprobe_sim.pytest_plugin.machine_reports import MachineReports
    from kprobe_sim.pytest_plugin.unsupported import Unsupported


@wrapping
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Note on the report what tests left, what the kernel lacks, and whether the machine failed, not the test."""
    with contextlib.nullcontext() if call.excinfo is None else _readable(item, call.excinfo):
        report = yield
    reports(item.config).add_to(report)
    if call.excinfo is not None:
        unsupported(item.config).explain(item.nodeid, call.excinfo.value, report)
        error = call.excinfo.value
        if any(
            kind.__module__ == "kprobe_vm.errors" and kind.__name__ == "MachineError" for kind in type(error).__mro__
        ):
            report.guest_fault = (type(error).__name__, getattr(error, "exit_status", 1))
    return report


@wrapping
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Limit how long a test waits, in the tracer or in a read of a simulated file."""
    from kprobe.tracing.waiting import Limited
    from kprobe_sim.tree.files.patience import Patience, limited

    seconds = limit(item)
    with Limited(seconds), limited(None if seconds is None else Patience(seconds, _overdue)):
        return (yield)


def _overdue(seconds: float, tracefs: Tracefs, path: str) -> BaseException:
    """Return the failure of a test that has waited too long, an exception that code under test won't catch."""
    from kprobe_sim.pytest_plugin.waits import overdue

    return pytest.fail.Exception(overdue(seconds, tracefs, path))


@wrapping
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail a test if one of its threads waited too long, or if it caught the failure."""
    from kprobe_sim.tree.files.patience import patience

    result = yield
    limit = patience()
    if limit is not None and limit.late is not None:
        pytest.fail(str(limit.late), pytrace=False)
    return result


def pytest_report_teststatus(report: Any) -> tuple[str, str, str] | None:
    """Show a machine's failure differently from a test's."""
    fault = getattr(report, "guest_fault", None)
    if fault is None or not report.failed:
        return None
    return "failed" if report.when == "call" else "error", "G", f"GUEST FAILED ({fault[0]})"


@contextlib.contextmanager
def _readable(item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException]) -> Iterator[None]:
    """Have a refusal reported in the kernel's words, without our frames."""
    from kprobe_sim.pytest_plugin.refusals import add_reason, without_our_frames

    values = getattr(item, "funcargs", {})
    owner = values.get("sys_kernel_tracing") or values.get("simulated_machine")
    tracefs = values.get("tracefs") if owner is None else owner.tracefs
    if isinstance(excinfo.value, OSError) and tracefs is not None:
        from kprobe.events.refusal import words

        with contextlib.suppress(Exception):  # the refusal may have ended the machine
            add_reason(excinfo, tracefs, words)
    if item.config.getoption("fulltrace"):
        yield
        return
    with without_our_frames(excinfo, pytest.fail.Exception):
        yield


def reports(config: pytest.Config) -> MachineReports:
    """Return the notes of this run about its machines."""
    plugin: MachineReports = config.pluginmanager.getplugin("kprobe machines")
    return plugin


def unsupported(config: pytest.Config) -> Unsupported:
    """Return the notes of this run about features that its kernels lack."""
    plugin: Unsupported = config.pluginmanager.getplugin("kprobe unsupported")
    return plugin
