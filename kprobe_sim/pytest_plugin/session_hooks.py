"""The hooks of a whole run: they check the specs, and decide which tests run on which tracefs."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from .options import SIMULATOR_ONLY, full_spec, has_guests, kind, limit, source, specs
from .wrapping import wrapping


@wrapping
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, object, object]:
    """Distribute tests by file, before pytest-xdist reads its options, whichever of the two was loaded first."""
    if has_guests(config):
        from kprobe_sim.pytest_plugin.workers import share_by_files

        share_by_files(config.option)
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    from kprobe_sim.pytest_plugin.machine_reports import MachineReports

    config.pluginmanager.register(MachineReports(), "kprobe machines")
    from kprobe_sim.pytest_plugin.unsupported import Unsupported

    config.pluginmanager.register(Unsupported(), "kprobe unsupported")
    full = [full_spec(spec) for spec in specs(config)]
    if len(set(full)) > 1:
        from kprobe_sim.pytest_plugin.kernel_table import KernelTable

        config.pluginmanager.register(KernelTable(full), "kprobe kernels")
    config.addinivalue_line("markers", "vm: runs on a real kernel in QEMU; deselected unless one is asked for")
    config.addinivalue_line("markers", "own_guest: gets a machine of its own, freshly booted, if that is a guest")
    config.addinivalue_line(
        "markers", "kprobe_timeout(seconds): how long it may wait for a trace in total; 0: for ever"
    )
    config.addinivalue_line(
        "markers", "check_clean(wanted=True): fail if it leaves anything in its tracefs, or removes what wasn't its own"
    )
    config.addinivalue_line("markers", "needs(*texts): skip where the README of the tracefs lacks one of the texts")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse, once and before anything else, a spec or a time limit that means nothing."""
    limit(session)
    if hasattr(session.config, "workerinput"):  # the process that started this worker has checked them
        return
    from kprobe.errors import UnknownBackend
    from kprobe.tracefs.backends import check_spec

    for spec in specs(session.config):
        try:
            check_spec(spec)
        except (UnknownBackend, ValueError) as error:
            raise pytest.UsageError(f"{source(session.config)}{spec}: {error}") from None
    terminal = session.config.pluginmanager.getplugin("terminalreporter")
    if terminal is not None and has_guests(session.config):
        from kprobe_sim.pytest_plugin.workers import advice

        if text := advice(session.config.option):
            terminal.write_line(text)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say where tests run if no option says it."""
    if config.getoption("tracefs") or specs(config) == ["sim"]:
        return None
    return f"tracefs: {specs(config)[0]} (from $KPROBE_TRACEFS)"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "trace_text" in metafunc.fixturenames:
        metafunc.parametrize("trace_text", _trace_texts(metafunc.config), indirect=True)
    if "tracefs_backend" not in metafunc.fixturenames:
        return
    parameters = []
    for spec in specs(metafunc.config):
        marks = []
        if kind(spec) == "vm":
            marks.append(pytest.mark.vm)
        if kind(spec) != "sim" and "kernel" in metafunc.fixturenames:
            marks.append(pytest.mark.skip(reason=SIMULATOR_ONLY))
        parameters.append(pytest.param(spec, marks=marks, id=full_spec(spec)))
    metafunc.parametrize("tracefs_backend", parameters, indirect=True, scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "vm" in config.getoption("markexpr") or has_guests(config):
        return
    dropped = [item for item in items if item.get_closest_marker("vm")]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if not item.get_closest_marker("vm")]


def _trace_texts(config: pytest.Config) -> list[Any]:
    from kprobe_corpus.parsers.texts import chosen
    from kprobe_corpus.traces import CorpusError

    filters = [config.getoption(f"trace_{name}") for name in ("kernels", "scenarios")]
    try:
        texts = chosen(config.getoption("trace_corpus"), *filters)
    except CorpusError as error:
        raise pytest.UsageError(f"trace_text: {error}") from None
    return [pytest.param(text, id=f"{text.entry.kernel}/{text.entry.name}") for text in texts]
