"""Fixtures of the conformance suite: what differs between kernels is looked up by what the README offers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pytest

from .builds import Build, build_of

T = TypeVar("T")

_OPTIMIZATION = "proc/sys/debug/kprobes-optimization"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Let probes that use a breakpoint stay there, on a real kernel too.

    It would make jumps of them 10 to 250 ms after they are armed, when it comes to it, and hits then look otherwise.
    """
    backend = getattr(item, "funcargs", {}).get("tracefs_backend")
    machine = None if backend is None else getattr(backend.opened, "machine", None)
    if machine is not None:
        with contextlib.suppress(FileNotFoundError):
            machine.files.write(_OPTIMIZATION, b"0")


@pytest.fixture
def choose(tracefs: Any) -> Callable[[Mapping[str, T]], T]:
    """Return a function: from {README text: expectation} the last one whose text the README has ("" always)."""
    readme = tracefs.read("README").decode()

    def chosen(expectations: Mapping[str, T]) -> T:
        return [value for text, value in expectations.items() if text in readme][-1]

    return chosen


@pytest.fixture
def build(release: str) -> Build:
    """The facts of the kernel build under test."""
    return build_of(release)


@pytest.fixture(scope="session")
def releases() -> dict[str, str]:
    """The releases of the kernels that were asked for it, by the spec of their backend."""
    return {}


@pytest.fixture
def release(tracefs: Any, tracefs_backend: Any, releases: dict[str, str]) -> str:
    """The release of the kernel under test."""
    spec: str = tracefs_backend.spec
    if spec not in releases:
        releases[spec] = _release(tracefs)
    return releases[spec]


def _release(tracefs: Any) -> str:
    """Return what the heading of the latency format says.

    It isn't printed over an empty buffer, so there is a marker for as long.
    """
    tracefs.write("trace_marker", b"x")
    tracefs.write("options/latency-format", b"1")
    heading = tracefs.read("trace").decode()
    tracefs.write("options/latency-format", b"0")
    tracefs.write("trace", b"", truncate=True)
    return str(heading.partition(" latency trace v1.1.5 on ")[2].partition("\n")[0])
