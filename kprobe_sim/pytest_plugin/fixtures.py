"""The fixtures: each tracefs in the state of a freshly booted kernel, and what tests use on it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

import pytest

from .item_hooks import reports, unsupported
from .options import SIMULATOR_ONLY, checks_clean, full_spec, kind, specs

if TYPE_CHECKING:
    from kprobe import Tracer
    from kprobe.tracefs.tracefs import Tracefs
    from kprobe_corpus.parsers.texts import TraceText
    from kprobe_sim.kernel.simulated import SimulatedKernel
    from kprobe_sim.kernel.workload import Workload
    from kprobe_sim.pytest_plugin.machines import Backend
    from kprobe_sim.tree.leftovers.hygiene import Hygiene

_HYGIENE = pytest.StashKey["Hygiene"]()
_STILL = {"sys_kernel_tracing", "simulated_machine"}  # with these the machine's time moves only when it is read


@pytest.fixture
def tracefs_spec(tracefs_backend: Backend) -> str:
    """The spec of the backend that this test runs on: "sim:6.1"."""
    return tracefs_backend.spec


@pytest.fixture(scope="session")
def tracefs_backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """The backend of one spec; it is opened when a test first needs it."""
    with _real_files():
        from kprobe.tracefs.backends import open_tracefs
        from kprobe_sim.pytest_plugin.machines import Backend

    with Backend(_spec(request), open_tracefs, reports(request.config).note) as backend:
        yield backend


@pytest.fixture
def tracefs(request: pytest.FixtureRequest, tracefs_backend: Backend) -> Iterator[Tracefs]:
    """A tracefs as the kernel has it after boot, on each backend that was asked for."""
    node, spec = request.node, tracefs_backend.spec
    module = node.getparent(pytest.Module) or request.session
    if tracefs_backend.module is not module:  # a module-scoped fixture would slow every test
        tracefs_backend.module = module
        module.addfinalizer(tracefs_backend.end_module)
    still = bool(_STILL & set(request.fixturenames))
    exclusive = node.get_closest_marker("own_guest") is not None or request.config.getoption("guest_per") == "test"
    with _real_files():
        from kprobe_sim.pytest_plugin.machines import Unusable
        from kprobe_sim.pytest_plugin.unsupported import REASON
        from kprobe_sim.tree.files.capabilities import Capabilities

        try:
            # a guest may keep the test waiting, and says so on standard error
            with _uncaptured(request.config) if kind(spec) == "vm" else contextlib.nullcontext():
                fresh = tracefs_backend.fresh(node.nodeid, exclusive=exclusive, still=still)
        except Unusable as error:
            raise pytest.UsageError(str(error)) from error.__cause__
        node.user_properties += [("tracefs", full_spec(spec)), ("kernel", tracefs_backend.release(fresh))]
        unsupported(request.config).begin(node.nodeid, tracefs_backend, fresh)
    needed = [text for mark in node.iter_markers("needs") for text in mark.args]
    if needed:
        readme = fresh.read("README").decode("utf-8", "replace")
        missing = [text for text in needed if text not in readme]
        if missing:
            pytest.skip(f"{REASON}{', '.join(map(repr, missing))} (not in README)")
    hygiene = (
        _hygiene(request, tracefs_backend, fresh)
        if "check_clean" in request.fixturenames or checks_clean(node)
        else None
    )
    yield fresh
    with _real_files():
        left = "" if hygiene is None else hygiene.report(() if kind(spec) == "sim" else fresh.touched())
    if kind(spec) == "sim" and (close := Capabilities(fresh).close) is not None:
        close()
    if left:
        pytest.fail(left, pytrace=False)


@pytest.fixture
def check_clean(tracefs: Tracefs, request: pytest.FixtureRequest) -> Hygiene:
    """Fails the test if it leaves anything in `tracefs`, not counting what `check_clean.begin()` finds."""
    hygiene: Hygiene = request.node.stash[_HYGIENE]
    return hygiene


@pytest.fixture
def tracer(tracefs: Tracefs) -> Tracer:
    """A `kprobe.Tracer` on `tracefs`."""
    with _real_files():
        from kprobe import Tracer

    return Tracer(tracefs)


@pytest.fixture
def kernel(tracefs: Tracefs, tracefs_backend: Backend) -> SimulatedKernel:
    """The simulated kernel under `tracefs`; every other backend skips the test."""
    if not tracefs_backend.is_simulated:  # a test may ask for the fixture only when it runs
        pytest.skip(SIMULATOR_ONLY)
    simulated: SimulatedKernel = tracefs.kernel  # type: ignore[attr-defined]  # only the simulator's has it
    return simulated


@pytest.fixture
def trace_text(request: pytest.FixtureRequest) -> TraceText:
    """A text of the corpus; `trace_text.check(read)` holds a parser to it: docs/guides/readers.md."""
    text: TraceText = request.param
    return text


@pytest.fixture
def sys_kernel_tracing(kernel: SimulatedKernel) -> Iterator[SimulatedKernel]:
    """The kernel; during the test, this process finds its files at /sys/kernel/tracing."""
    from kprobe_sim.expose import patched

    with patched(kernel) as simulated:
        yield simulated


@pytest.fixture
def simulated_machine(kernel: SimulatedKernel, fs: Any) -> Iterator[SimulatedKernel]:
    """The same in a whole fake machine, in pyfakefs' `fs`: with the rest of /proc, directories for locks and logs."""
    with _real_files():
        from kprobe_sim.expose import patched
    with patched(kernel, fs=fs) as simulated:
        yield simulated


@pytest.fixture
def workload(tracefs: Tracefs, tracefs_backend: Backend) -> Iterator[Workload]:
    """A task of the traced machine that opens files, forks … on the test's behalf; its name and pid are known."""
    with _real_files():
        from kprobe_text.entry_points import find

        maker = find("kprobe.workload", kind(tracefs_backend.spec))
        if maker is None:
            spec = tracefs_backend.spec
            raise pytest.UsageError(f"no workload for --tracefs {spec}: a simulator or a guest is needed")
        task: Workload = maker.load()(tracefs_backend.opened or tracefs)
    yield task
    task.close()


def _hygiene(request: pytest.FixtureRequest, backend: Backend, tracefs: Any) -> Hygiene:
    """Return what watches a tracefs from now on."""
    with _real_files():
        from kprobe_sim.tree.leftovers.hygiene import Hygiene

        hygiene = request.node.stash[_HYGIENE] = Hygiene(tracefs)
    owner = tracefs.kernel if backend.is_simulated else tracefs
    owner.listener = hygiene.hear
    return hygiene


def _spec(request: pytest.FixtureRequest) -> str:
    """Return the spec of a test; one that pytest can't parametrize gets the only spec of the run."""
    given = getattr(request, "param", None)
    if given is not None:
        return str(given)
    every = specs(request.config)
    if len(every) > 1:
        raise pytest.UsageError(
            f"this test runs on one tracefs, and there are {', '.join(every)}: pytest runs a test on each of several "
            "if it is not a method of unittest.TestCase and has the fixture among its arguments or in usefixtures()"
        )
    return every[0]


@contextlib.contextmanager
def _real_files() -> Iterator[None]:
    """Let our code see the real files while pyfakefs is in use: an import would read the fake ones."""
    module = sys.modules.get("pyfakefs.fake_filesystem_unittest")
    patcher = None if module is None else module.Patcher.PATCHER
    if patcher is None or not getattr(patcher, "_patching", True):
        yield
        return
    patcher.pause()
    try:
        yield
    finally:
        patcher.resume()


@contextlib.contextmanager
def _uncaptured(config: pytest.Config) -> Iterator[None]:
    """Show what is printed on standard error, on separate lines, although pytest captures it."""
    manager = config.pluginmanager.getplugin("capturemanager")
    with contextlib.nullcontext() if manager is None else manager.global_and_fixture_disabled():
        beside: Any = _Beside(config.pluginmanager.getplugin("terminalreporter"), sys.stderr)
        with contextlib.redirect_stderr(beside):
            yield


class _Beside:
    """Standard error that first ends a line that pytest's own report has begun."""

    def __init__(self, reporter: Any, out: TextIO) -> None:
        self._reporter = reporter
        self._out = out

    def write(self, text: str) -> int:
        if self._reporter is not None:  # pytest-xdist's workers have none
            self._reporter.ensure_newline()
        return self._out.write(text)

    def flush(self) -> None:
        self._out.flush()

    def isatty(self) -> bool:
        """Return False: nothing may overwrite pytest's lines."""
        return False
