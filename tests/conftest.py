"""What all tests share: the project's own pytest plugin, many recorded cases in one test, and another order.

`--cases TEXT` leaves of the tests that check many recorded cases those whose name has TEXT in it.
`--shuffle SEED` runs the files in another order, and the tests of each file as well.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import random
import signal
import subprocess
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from importlib.metadata import entry_points
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import NoReturn, TypeVar

import pytest

from kprobe_sim.builds.profile import VARIABLE, profile_directories

from .requirements import LeftOut, lack, lacking, require

T = TypeVar("T")

# a shell's background job ignores SIGINT and SIGQUIT, and nohup(1) SIGHUP; what the tests start must not inherit that
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)

# profiles of whoever runs the tests aren't those that the tests name, but may be those of the guests that they run on
_USERS_PROFILES = "KPROBE_TESTS_PROFILES"  # for the workers of pytest-xdist, which get the environment as it is then
os.environ.setdefault(_USERS_PROFILES, os.pathsep.join(str(path) for _, path in profile_directories()))
os.environ.pop(VARIABLE, None)
os.environ["XDG_DATA_HOME"] = os.devnull

# what a CI or a person sets to change what programs print: pytest prints a long summary where CI or BUILD_NUMBER is set
for name in ("CI", "BUILD_NUMBER", "GITHUB_ACTIONS", "GITLAB_CI", "FORCE_COLOR", "NO_COLOR", "PY_COLORS", "COLUMNS"):
    os.environ.pop(name, None)

if not any(point.value == "kprobe_sim.pytest_plugin" for point in entry_points(group="pytest11")):
    pytest_plugins = ["kprobe_sim.pytest_plugin"]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kprobe-sim's own tests")
    group.addoption("--cases", default="", metavar="TEXT", help="of many recorded cases those with TEXT in the name")
    group.addoption("--shuffle", metavar="SEED", help="run files, and the tests of a file, in an order made of SEED")


def pytest_configure(config: pytest.Config) -> None:
    """Name at the end what is left out; let no case of hypothesis fail by how long it took, as other processes run."""
    config.addinivalue_line("markers", "requires(*names): what it needs of the machine (tests/requirements.py)")
    config.pluginmanager.register(LeftOut(), "kprobe-sim's requirements")
    if not config.pluginmanager.hasplugin("hypothesispytest"):  # in a guest there is pytest and nothing else
        return
    from hypothesis import HealthCheck, settings

    settings.register_profile("at any load", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("at any load")
    # of its own generator, whose holder on 3.14 is among what is left out of collections below
    ignored = "ignore:It looks like `register_random`:hypothesis.errors.HypothesisWarning"
    config.addinivalue_line("filterwarnings", ignored)


@pytest.hookimpl(optionalhook=True)  # of xdist
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return how many processes `-n auto` means: three for two processors, as tests wait a lot; with guests two."""
    processors = len(os.sched_getaffinity(0))
    guests = any(spec.startswith("vm") for spec in config.getoption("tracefs"))
    return processors if guests else -(-processors * 3 // 2)


def pytest_report_header(config: pytest.Config) -> str | None:
    seed = config.getoption("shuffle")
    return None if seed is None else f"order: --shuffle {seed}"


@pytest.hookimpl(tryfirst=True)  # pytest then brings together what shares a fixture with parameters
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seed = config.getoption("shuffle")
    if seed is None:
        return
    rng = random.Random(seed)  # the same for all workers, who must agree on the order
    files = [list(tests) for _, tests in groupby(items, key=lambda item: item.path)]
    rng.shuffle(files)
    for tests in files:
        rng.shuffle(tests)
    items[:] = [test for tests in files for test in tests]


def pytest_collection_finish() -> None:
    """Leave what was collected out of all later collections of garbage: it took a quarter of the time of a test.

    A kernel is garbage that only they find; each test makes one, which is no reason for a collection after each.
    """
    gc.freeze()
    gc.set_threshold(20_000)


@pytest.fixture(scope="session")
def loaded() -> Callable[[Path], ModuleType]:
    """Return what loads a file that is in no package, such as a tool, as a module, anew each time."""

    def loaded(path: Path) -> ModuleType:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return loaded


@pytest.fixture(scope="session")
def requires() -> Callable[..., None]:
    """Return what ends a test whose fixture needs what this machine lacks: requires("cc", "gpg")."""
    return require


@pytest.fixture(scope="session", autouse=True)
def terminals() -> Iterator[None]:
    """Leave a test out where it opens a terminal and this machine has none."""
    with pytest.MonkeyPatch.context() as patch:
        if lacking(["/dev/pts"]):
            for name in ("openpty", "forkpty"):  # one of which pty and pexpect call
                patch.setattr(os, name, lambda: require("/dev/pts"))
        yield


@pytest.fixture(scope="session")
def lacks() -> Callable[..., NoReturn]:
    """Return what ends a test that has found something missing: lacks("Debian's archive", why="no route to host")."""
    return lack


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return what fetches some of Debian's packages and unpacks them into one directory, which it returns."""

    def unpacked(*packages: str) -> Path:
        require("apt-get", "dpkg-deb")
        place = tmp_path_factory.mktemp(packages[0])
        fetched = subprocess.run(["apt-get", "download", *packages], cwd=place, capture_output=True, text=True)
        if fetched.returncode:
            lack("Debian's archive", why=f"{', '.join(packages)} can't be fetched: {fetched.stderr.strip()}")
        for package in place.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, place], check=True)
        return place

    return unpacked


@pytest.fixture(scope="session")
def users_profiles() -> list[Path]:
    """Where whoever runs the tests has profiles, the first to be looked into first."""
    return [Path(place) for place in os.environ[_USERS_PROFILES].split(os.pathsep)]


@pytest.fixture
def every(pytestconfig: pytest.Config) -> Callable[..., None]:
    """Check many cases in one test, which fails with the names of all that differ and how they do.

    every(cases, check, of=99): `cases` are pairs of a name and what `check` is called with, 99 of them.  Those whose
    name is in `known` must still differ.
    """
    chosen: str = pytestconfig.getoption("cases")

    def checked(
        cases: Iterable[tuple[str, T]], check: Callable[[T], object], *, of: int, known: Collection[str] = ()
    ) -> None:
        found = list(cases)
        assert len(found) == of
        assert set(known) <= {name for name, _ in found}
        said = []
        for name, case in found:
            if chosen not in name:
                continue
            try:
                check(case)
            except (Exception, pytest.fail.Exception) as error:
                if name not in known:
                    said.append(f"{name}\n{_difference(error)}")
            else:
                if name in known:
                    said.append(f"{name}\nno longer differs")
        if said:
            pytest.fail(f"{len(said)} of {of} cases differ:\n\n" + "\n\n".join(said), pytrace=False)

    return checked


def _difference(error: BaseException) -> str:
    """Return what an assertion said, and where."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
    return f"{place.filename}:{place.lineno}: {place.line}\n{kind}{error}"
