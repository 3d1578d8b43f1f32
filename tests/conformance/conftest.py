"""Fixtures of the conformance suite: what differs between kernels is looked up in the README and in their profiles."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from kprobe_sim.builds.profile import Profile
from kprobe_sim.testing.unsupported import REASON, has_function

from .builds import Answered, Build, build_of, recorded_of

T = TypeVar("T")

_OPTIMIZATION = "proc/sys/debug/kprobes-optimization"
# what the suite's tests place their probes on; older kernels call the first two otherwise
_FUNCTIONS = ("do_sys_openat2", "kernel_clone", "ksys_fadvise64_64")
_LACKING = pytest.StashKey[dict[str, list[str]]]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Let probes that use a breakpoint stay there, on a real kernel too.

    It would make jumps of them 10 to 250 ms after they are armed, when it comes to it, and hits then look otherwise.
    """
    backend = getattr(item, "funcargs", {}).get("tracefs_backend")
    machine = None if backend is None else getattr(backend.opened, "machine", None)
    if machine is not None:
        if "/" in backend.spec:
            _note_lacking_functions(item, backend)
        with contextlib.suppress(FileNotFoundError):
            machine.files.write(_OPTIMIZATION, b"0")


def _note_lacking_functions(item: pytest.Item, backend: Any) -> None:
    """Note of a test that it is about a function which this kernel, one that came by its path, hasn't got."""
    known = item.config.stash.setdefault(_LACKING, {})
    if backend.spec not in known:
        known[backend.spec] = [name for name in _FUNCTIONS if not has_function(backend.opened, name)]
    words = getattr(item, "callspec", None)
    about = f"{words and words.params}{inspect.getsource(item.obj)}"  # type: ignore[attr-defined]  # they are functions
    for name in known[backend.spec]:
        if name in about:
            notes: Any = item.config.pluginmanager.getplugin("kprobe unsupported")
            notes.is_about(f"function {name} (not in this kernel)")


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
def recorded(tracefs: Any, tracefs_backend: Any, release: str, users_profiles: list[Path]) -> Profile:
    """The profile of the kernel under test: the simulator's own, or that of the release."""
    if (simulated := getattr(tracefs, "kernel", None)) is not None:
        return cast("Profile", simulated.profile)
    try:
        return recorded_of(release, tracefs_backend.spec, users_profiles)
    except LookupError as error:
        said = str(error)
    if "/" in tracefs_backend.spec:  # a kernel of one's own, of which nobody has made one
        pytest.skip(f"{REASON}facts of the build (no profile: kprobe-vm record)")
    pytest.fail(said, pytrace=False)
