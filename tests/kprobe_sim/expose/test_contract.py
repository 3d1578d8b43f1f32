"""The contract table (tests/conformance/contract.py) through patched Python, pyfakefs and the mount.

In-process and on guests it is run by tests/conformance/test_table.py; the table of all five is docs/evidence/ways.md.
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
ways = load(ROOT / "tools" / "docs" / "ways.py")
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


def named() -> list[tuple[str, str]]:
    return [(name, name) for name in contract.CASES]


def test_patched_python(every: Any) -> None:
    def check(name: str) -> None:
        case, _ = contract.CASES[name]
        with patched("6.1"):
            assert contract.outcome(contract.Calls(TRACING), case) == wanted("patched", name, "6.1")

    every(named(), check, of=72)


def test_pyfakefs(every: Any, readmes: None, fs: Any) -> None:
    def check(name: str) -> None:
        case, _ = contract.CASES[name]
        with patched("6.1", fs=fs):
            outcome = contract.outcome(contract.Calls("/sys/kernel/debug/tracing"), case)
            assert outcome == wanted("pyfakefs", name, "6.1")

    every(named(), check, of=72)


@pytest.mark.slow
@pytest.mark.parametrize("series", SERIES)
def test_mount(every: Any, run: Run, series: str) -> None:
    """All cases on one mount."""
    options = ("--kernel", series, "--activity", "none")
    done = run([sys.executable, contract.__file__, TRACING], options)
    assert done.stderr == ""
    found = {
        name: value["bytes"].encode("latin-1") if isinstance(value, dict) else value
        for name, value in json.loads(done.stdout).items()
    }

    def check(name: str) -> None:
        assert found[name] == wanted("mount", name, series)

    every(named(), check, of=72)


def test_the_page_shows_the_table() -> None:
    assert ways.PAGE.read_text(encoding="utf-8") == ways.page(), "run tools/docs/ways.py"
