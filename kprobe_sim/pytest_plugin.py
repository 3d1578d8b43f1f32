"""pytest plugin: one test body on a simulated kernel, on a guest, or on the machine's own tracefs.

    pytest                                        the simulator, newest profile
    pytest --tracefs sim:6.1 --tracefs vm:6.1     every test that asks for `tracefs` runs twice

On guests (`vm:...`) each test module has a machine of its own, as it is after a boot, and what a test changes there is
undone after it; `--guest-per test`, or the marker `own_guest` on a test, gives each test a new machine.  So many
pytest-xdist workers as the host can bear have guests at once, the others wait a while for their turn; `-n` shares the
tests by files (`--dist loadfile`), as otherwise each worker has a guest for each module.

Each test has the properties `tracefs` and `kernel` (the release), also in JUnit's XML; a run on several tracefs ends
with a table of the tests that differ.

Fixtures: `tracefs` (pristine for each test), `tracer` (kprobe.Tracer on it), `workload` (a task that opens files and
forks there), `kernel` (the SimulatedKernel; the test is skipped elsewhere: "simulator only").
`trace_text`: each text of the corpus, for a parser (`--trace-kernels 6.*`, `--trace-scenarios`, `--trace-corpus`).
`sys_kernel_tracing` and `simulated_machine`: for code that opens the paths itself, see `kprobe_sim.expose`.
Markers: `needs("text", …)` (skipped where the kernel's README lacks a text), `vm` (only run if a guest was asked for),
`own_guest`, `kprobe_timeout(seconds)`.

A test that has waited for a trace 30 seconds in all fails, and tells how the trace stands (`--kprobe-timeout`, or
`kprobe_timeout` in the configuration; 0: it waits for ever).  What the kernel refused is shown with its own words, and
without the frames of these packages (`--full-trace` shows them).

A real kernel that was asked for and can't run is an error, never a skip; a guest that died is shown as such.  This
module is imported in every run of pytest, so it imports the rest when a fixture needs it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, TextIO

import pytest

if TYPE_CHECKING:
    from kprobe import Tracer
    from kprobe.readers.texts import TraceText
    from kprobe.tracefs.tracefs import Tracefs

    from .kernel.simulated import SimulatedKernel
    from .kernel.workload import Workload
    from .testing.machine_reports import MachineReports
    from .testing.machines import Backend
    from .testing.unsupported import Unsupported


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kprobe", "kernel probes")
    group.addoption(
        "--guest-per",
        choices=["module", "test"],
        default="module",
        help="how often tests get a new machine where that is a guest: with each module (the default) or each test",
    )
    group.addoption(
        "--tracefs",
        action="append",
        default=[],
        metavar="SPEC",
        help="where to run tests that ask for a tracefs; may be given several times: sim (the default), sim:6.1, "
        "vm:6.1 (a real kernel in QEMU), vm:/path/to/bzImage, local",
    )
    group.addoption(
        "--kprobe-timeout",
        type=float,
        metavar="SECONDS",
        help="how long a test may wait for a trace in total; 0: for ever",
    )
    parser.addini("kprobe_timeout", "how many seconds a test may wait for a trace in total; 0: for ever", default="30")
    group.addoption("--trace-corpus", metavar="DIR", help="texts for trace_text, instead of those that are installed")
    for what in ("kernels", "scenarios"):
        group.addoption(
            f"--trace-{what}",
            default="",
            metavar="LIST",
            help=f"only texts of these {what} for trace_text, with commas between; * stands for any text",
        )


@pytest.hookimpl(hookwrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, None, None]:
    if _has_guests(config):
        from .testing.workers import share_by_files

        share_by_files(config.option)
    yield


def pytest_configure(config: pytest.Config) -> None:
    from .testing.machine_reports import MachineReports

    config.pluginmanager.register(MachineReports(), "kprobe machines")
    from .testing.unsupported import Unsupported

    config.pluginmanager.register(Unsupported(), "kprobe unsupported")
    specs = [_full_spec(spec) for spec in config.getoption("tracefs")]
    if len(set(specs)) > 1:
        from .testing.kernel_table import KernelTable

        config.pluginmanager.register(KernelTable(specs), "kprobe kernels")
    config.addinivalue_line("markers", "vm: runs on a real kernel in QEMU; deselected unless one is asked for")
    config.addinivalue_line("markers", "own_guest: gets a machine of its own, just as it booted, if that is a guest")
    config.addinivalue_line(
        "markers", "kprobe_timeout(seconds): how long it may wait for a trace in total; 0: for ever"
    )
    config.addinivalue_line("markers", "needs(*texts): skip where the README of the tracefs lacks one of the texts")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Say once, and before anything else, that a spec or a time means nothing."""
    _limit(session)
    specs: list[str] = session.config.getoption("tracefs")
    if not specs or hasattr(session.config, "workerinput"):  # a worker's was looked at before
        return
    from kprobe.errors import UnknownBackend
    from kprobe.tracefs.backends import check_spec

    for spec in specs:
        try:
            check_spec(spec)
        except (UnknownBackend, ValueError) as error:
            raise pytest.UsageError(f"--tracefs {spec}: {error}") from None
    terminal = session.config.pluginmanager.getplugin("terminalreporter")
    if terminal is not None and _has_guests(session.config):
        from .testing.workers import advice

        if said := advice(session.config.option):
            terminal.write_line(said)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "trace_text" in metafunc.fixturenames:
        metafunc.parametrize("trace_text", _trace_texts(metafunc.config), indirect=True)
    if "tracefs_backend" not in metafunc.fixturenames:
        return
    parameters = []
    for spec in metafunc.config.getoption("tracefs") or ["sim"]:
        marks = []
        if _kind(spec) == "vm":
            marks.append(pytest.mark.vm)
        if _kind(spec) != "sim" and "kernel" in metafunc.fixturenames:
            marks.append(pytest.mark.skip(reason="simulator only"))
        parameters.append(pytest.param(spec, marks=marks, id=_full_spec(spec)))
    metafunc.parametrize("tracefs_backend", parameters, indirect=True, scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "vm" in config.getoption("markexpr") or _has_guests(config):
        return
    dropped = [item for item in items if item.get_closest_marker("vm")]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if not item.get_closest_marker("vm")]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Note on the report if what failed is the machine and not what runs on it, and what tests left on it."""
    with contextlib.nullcontext() if call.excinfo is None else _told(item, call.excinfo):
        outcome = yield
    _reports(item.config).add_to(outcome.get_result())
    if call.excinfo is not None:
        _unsupported(item.config).look_at(item.nodeid, call.excinfo.value, outcome.get_result())
        error = call.excinfo.value
        if any(
            kind.__module__ == "kprobe_vm.errors" and kind.__name__ == "MachineError" for kind in type(error).__mro__
        ):
            outcome.get_result().guest_fault = (type(error).__name__, getattr(error, "exit_status", 1))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, None, None]:
    from kprobe.tracing.waiting import Limited

    with Limited(_limit(item)):
        yield


def pytest_report_teststatus(report: Any) -> tuple[str, str, str] | None:
    """Show a machine that failed in another way than a test that did."""
    fault = getattr(report, "guest_fault", None)
    if fault is None or not report.failed:
        return None
    return "failed" if report.when == "call" else "error", "G", f"GUEST FAILED ({fault[0]})"


@pytest.fixture
def tracefs_spec(tracefs_backend: Backend) -> str:
    """The backend spec that this test runs on: "sim:6.1"."""
    return tracefs_backend.spec


@pytest.fixture(scope="session")
def tracefs_backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """The backend of one spec, which is opened when a test needs it."""
    from kprobe.tracefs.backends import open_tracefs

    from .testing.machines import Backend

    with Backend(request.param, open_tracefs, _reports(request.config).note) as backend:
        yield backend


@pytest.fixture
def tracefs(request: pytest.FixtureRequest, tracefs_backend: Backend) -> Iterator[Tracefs]:
    """A tracefs in the state in which the kernel boots, on each backend that was asked for."""
    node, spec = request.node, tracefs_backend.spec
    module = node.getparent(pytest.Module) or request.session
    if tracefs_backend.module is not module:  # a fixture of each module would cost each test of it
        tracefs_backend.module = module
        module.addfinalizer(tracefs_backend.end_module)
    own = node.get_closest_marker("own_guest") is not None or request.config.getoption("guest_per") == "test"
    from .testing.machines import Unusable
    from .testing.unsupported import REASON

    try:
        # a guest may have to be waited for, and says so on standard error
        with _uncaptured(request.config) if _kind(spec) == "vm" else contextlib.nullcontext():
            fresh = tracefs_backend.fresh(node.nodeid, own=own)
    except Unusable as error:
        raise pytest.UsageError(str(error)) from error.__cause__
    node.user_properties += [("tracefs", _full_spec(spec)), ("kernel", tracefs_backend.release(fresh))]
    _unsupported(request.config).begin(node.nodeid, tracefs_backend, fresh)
    needed = [text for mark in node.iter_markers("needs") for text in mark.args]
    if needed:
        readme = fresh.read("README").decode("utf-8", "replace")
        missing = [text for text in needed if text not in readme]
        if missing:
            pytest.skip(f"{REASON}{', '.join(map(repr, missing))} (not in README)")
    yield fresh
    if _kind(spec) == "sim":
        close = getattr(fresh, "close", None)
        if close is not None:
            close()


@pytest.fixture
def tracer(tracefs: Tracefs) -> Tracer:
    """A `kprobe.Tracer` on `tracefs`."""
    from kprobe import Tracer

    return Tracer(tracefs)


@pytest.fixture
def kernel(tracefs: Tracefs) -> SimulatedKernel:
    """The simulated kernel under `tracefs`; a test that asks for it is skipped on every other backend."""
    found: SimulatedKernel = tracefs.kernel  # type: ignore[attr-defined]  # only the simulator's has it
    return found


@pytest.fixture
def trace_text(request: pytest.FixtureRequest) -> TraceText:
    """A text of the corpus; `trace_text.check(read)` holds a parser to it: docs/readers.md."""
    found: TraceText = request.param
    return found


@pytest.fixture
def sys_kernel_tracing() -> Iterator[SimulatedKernel]:
    """A fresh SimulatedKernel whose files code of this process finds at /sys/kernel/tracing, during the test."""
    from .expose import patched

    with patched() as simulated:
        yield simulated


@pytest.fixture
def simulated_machine(fs: Any) -> Iterator[SimulatedKernel]:
    """The same in a whole fake machine, in pyfakefs' `fs`: with the rest of /proc, and places for locks and logs."""
    fs.pause()
    try:  # a module that is imported within `fs` has its files
        from .expose import patched
    finally:
        fs.resume()
    with patched(fs=fs) as simulated:
        yield simulated


@pytest.fixture
def workload(tracefs: Tracefs, tracefs_backend: Backend) -> Iterator[Workload]:
    """A task of the traced machine that opens files, forks … when the test says so; its name and pid are known."""
    from kprobe.tracefs.installed import find

    found = find("kprobe.workload", _kind(tracefs_backend.spec))
    if found is None:
        raise pytest.UsageError(f"no workload for --tracefs {tracefs_backend.spec}: a simulator or a guest is needed")
    task: Workload = found.load()(tracefs_backend.opened or tracefs)
    yield task
    task.close()


def _limit(node: pytest.Item | pytest.Session) -> float | None:
    """Return how many seconds a test may wait for a trace, None for ever."""
    given = node.config.getoption("kprobe_timeout")
    marker = node.get_closest_marker("kprobe_timeout")
    if marker is not None and marker.args:
        given = marker.args[0]
    text = node.config.getini("kprobe_timeout") if given is None else given
    try:
        return float(text) or None
    except ValueError:
        raise pytest.UsageError(f"kprobe_timeout: {text!r} is no number of seconds") from None


@contextlib.contextmanager
def _told(item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException]) -> Iterator[None]:
    """Have a refusal shown in the kernel's words, without our frames."""
    from .testing.refusals import noted, told

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
    with told(excinfo):
        yield


def _trace_texts(config: pytest.Config) -> list[Any]:
    from kprobe.corpus import CorpusError
    from kprobe.readers.texts import chosen

    words = [config.getoption(f"trace_{what}") for what in ("kernels", "scenarios")]
    try:
        texts = chosen(config.getoption("trace_corpus"), *words)
    except CorpusError as error:
        raise pytest.UsageError(f"trace_text: {error}") from None
    return [pytest.param(one, id=f"{one.entry.kernel}/{one.entry.name}") for one in texts]


@contextlib.contextmanager
def _uncaptured(config: pytest.Config) -> Iterator[None]:
    """Let what is printed on standard error be seen, on lines of its own, though pytest captures it."""
    manager = config.pluginmanager.getplugin("capturemanager")
    with contextlib.nullcontext() if manager is None else manager.global_and_fixture_disabled():
        beside: Any = _Beside(config.pluginmanager.getplugin("terminalreporter"), sys.stderr)
        with contextlib.redirect_stderr(beside):
            yield


class _Beside:
    """Standard error beside pytest's own report, in which a line may be begun."""

    def __init__(self, reporter: Any, out: TextIO) -> None:
        self._reporter = reporter
        self._out = out

    def write(self, text: str) -> int:
        if self._reporter is not None:  # there is none in the workers of pytest-xdist
            self._reporter.ensure_newline()
        return self._out.write(text)

    def flush(self) -> None:
        self._out.flush()

    def isatty(self) -> bool:
        """False: nothing may be written over pytest's lines."""
        return False


def _reports(config: pytest.Config) -> MachineReports:
    reports: MachineReports = config.pluginmanager.getplugin("kprobe machines")
    return reports


def _unsupported(config: pytest.Config) -> Unsupported:
    found: Unsupported = config.pluginmanager.getplugin("kprobe unsupported")
    return found


def _has_guests(config: pytest.Config) -> bool:
    return any(_kind(spec) == "vm" for spec in config.getoption("tracefs"))


def _kind(spec: str) -> str:
    return spec.partition(":")[0]


def _full_spec(spec: str) -> str:
    if spec != "sim":
        return spec
    from .builds.profile import newest

    return f"sim:{newest()}"
