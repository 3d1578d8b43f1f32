"""Fixtures of the conformance suite: what differs between kernels is looked up in the README and in their profiles."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pytest

from kprobe_sim.builds.profile import Profile
from kprobe_sim.pytest_plugin.unsupported import has_function
from kprobe_vm.recording.functions import KINDS, NEWEST

from .builds import Answered, Build, build_of, of_kernel
from .older import about as about_older
from .renamed import Renamed

T = TypeVar("T")

_OPTIMIZATION = "proc/sys/debug/kprobes-optimization"
_NAMED = pytest.StashKey[dict[str, tuple[Renamed | None, list[str]]]]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Let probes that use a breakpoint stay there, on a real kernel too.

    It would make jumps of them 10 to 250 ms after they are armed, when it comes to it, and hits then look otherwise.
    """
    backend = getattr(item, "funcargs", {}).get("tracefs_backend")
    machine = None if backend is None else getattr(backend.opened, "machine", None)
    tracefs = getattr(item, "funcargs", {}).get("tracefs")
    if tracefs is not None and backend is not None:
        _name_functions(item, backend.spec, tracefs)
    if machine is not None:
        with contextlib.suppress(FileNotFoundError):
            machine.files.write(_OPTIMIZATION, b"0")


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Iterator[None]:
    """Have what a test is given speak of this kernel's functions by their names there, as the test does."""
    made = fixturedef.func
    if "tracefs" in fixturedef.argnames and made.__module__.startswith(f"{__package__}.test_"):
        tracefs, backend = (request.getfixturevalue(name) for name in ("tracefs", "tracefs_backend"))
        renamed, _ = _known_names(request.config, backend.spec, tracefs)
        if renamed is not None:
            fixturedef.func = renamed.of(made)
    try:
        yield
    finally:
        fixturedef.func = made


def _name_functions(item: Any, spec: str, tracefs: Any) -> None:
    """Have a test speak of this kernel's functions by their names there, and note which it hasn't got at all."""
    renamed, lacking = _known_names(item.config, spec, tracefs)
    words = item.callspec.params if hasattr(item, "callspec") else {}
    if lacking:
        about = f"{words}{inspect.getsource(item.obj)}"
        for name in lacking:
            if name in about:
                notes: Any = item.config.pluginmanager.getplugin("kprobe unsupported")
                notes.is_about(f"function {name} (not in this kernel)")
    if renamed is not None and (what := about_older(item.originalname, tracefs, _readme(tracefs))):
        unsupported: Any = item.config.pluginmanager.getplugin("kprobe unsupported")
        unsupported.is_about(what)
    if renamed is not None:
        item.obj = renamed.of(item.obj)
        item.funcargs |= {name: renamed.of(value) for name, value in words.items() if name in item.funcargs}


def _readme(tracefs: Any) -> str:
    return str(tracefs.read("README").decode()) if tracefs.exists("README") else ""


def _known_names(config: Any, spec: str, tracefs: Any) -> tuple[Renamed | None, list[str]]:
    known = config.stash.setdefault(_NAMED, {})
    if spec not in known:
        known[spec] = _names(spec, tracefs)
    return known[spec]  # type: ignore[no-any-return]  # by its key


def _names(spec: str, tracefs: Any) -> tuple[Renamed | None, list[str]]:
    """Return what changes the suite's names of functions, the newest, to this kernel's; and those it lacks."""
    simulated = getattr(tracefs, "kernel", None)
    if simulated is not None:
        found = list(simulated.profile.called.values())
    elif "/" not in spec:  # the kernels that this suite is written for
        found = list(NEWEST)
    else:
        found = [next((name for name in names if has_function(tracefs, name)), None) for names in KINDS]
    pairs = dict(zip(NEWEST, found, strict=True))
    other = {name: here for name, here in pairs.items() if here not in (name, None)}
    return Renamed(other) if other else None, [name for name, here in pairs.items() if here is None]


@pytest.fixture
def choose(tracefs: Any, recorded: Profile) -> Callable[[Mapping[str | Answered, T]], T]:
    """Return a function: from {what tells kernels apart: expectation} the last one that this kernel meets.

    That is a text that its README has ("" always), or what it answered when it was recorded.
    """
    readme = tracefs.read("README").decode()

    def meets(mark: str | Answered) -> bool:
        return mark in readme if isinstance(mark, str) else mark.meets(recorded)

    def chosen(expectations: Mapping[str | Answered, T]) -> T:
        return [value for mark, value in expectations.items() if meets(mark)][-1]

    return chosen


@pytest.fixture
def build(recorded: Profile) -> Build:
    """The facts of the kernel build under test."""
    return build_of(recorded)


@pytest.fixture
def release(tracefs: Any, tracefs_backend: Any) -> str:
    """The release of the kernel under test."""
    return str(tracefs_backend.release(tracefs))


@pytest.fixture
def recorded(
    tracefs: Any, tracefs_backend: Any, release: str, users_profiles: list[Path], lacks: Callable[..., NoReturn]
) -> Profile:
    """The profile of the kernel under test: the simulator's own, or that of the release.

    Of a kernel by its path it is that of the very build: who builds one doesn't always give it a release of its own.
    Without one the test is left out, which the end of the run tells.
    """
    return of_kernel(tracefs, tracefs_backend, release, users_profiles, lacks)
