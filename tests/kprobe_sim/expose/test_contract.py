"""The contract table (tests/conformance/contract.py) through patched Python, pyfakefs and the mount.

In-process and on guests it is run by tests/conformance/test_table.py; the table of all five is docs/ways.md.
"""

from __future__ import annotations

import functools
import json
import sys
from typing import Any

import pytest

from kprobe_sim import SimulatedKernel
from kprobe_sim.expose import patched

from .conftest import ROOT, TRACING, Run, load

contract = load(ROOT / "tests" / "conformance" / "contract.py")
ways = load(ROOT / "tools" / "ways.py")
SERIES = ("5.10", "6.1", "6.12", "7.2", "7.3")


@functools.cache
def readme(series: str) -> str:
    return SimulatedKernel(series).tracefs.read("README").decode()


@pytest.fixture(scope="module")
def readmes() -> None:
    """Read what is needed before pyfakefs hides it."""
    readme("6.1")


def wanted(way: str, name: str, series: str) -> object:
    found = contract.DIFFERENT[way].get(name)
    return contract.expected(name, readme(series)) if found is None else found[0]


@pytest.mark.parametrize("name", contract.CASES)
def test_patched_python(name: str) -> None:
    case, _ = contract.CASES[name]
    with patched("6.1"):
        assert contract.outcome(contract.Calls(TRACING), case) == wanted("patched", name, "6.1")


@pytest.mark.parametrize("name", contract.CASES)
def test_pyfakefs(readmes: None, fs: Any, name: str) -> None:
    case, _ = contract.CASES[name]
    with patched("6.1", fs=fs):
        assert contract.outcome(contract.Calls("/sys/kernel/debug/tracing"), case) == wanted("pyfakefs", name, "6.1")


@pytest.fixture(scope="module")
def on_mount(run: Run) -> Any:
    """All outcomes on one mount of a series."""

    @functools.cache
    def found(series: str) -> dict[str, Any]:
        options = ("--kernel", series, "--activity", "none")
        done = run([sys.executable, contract.__file__, TRACING], options)
        assert done.stderr == ""
        raw: dict[str, Any] = json.loads(done.stdout)
        return {
            name: value["bytes"].encode("latin-1") if isinstance(value, dict) else value for name, value in raw.items()
        }

    return found


@pytest.mark.parametrize("name", contract.CASES)
@pytest.mark.parametrize("series", SERIES)
def test_mount(on_mount: Any, series: str, name: str) -> None:
    assert on_mount(series)[name] == wanted("mount", name, series)


def test_the_page_shows_the_table() -> None:
    assert ways.PAGE.read_text(encoding="utf-8") == ways.page(), "run tools/ways.py"
