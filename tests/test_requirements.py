"""What a machine lacks leaves tests out by name, and REQUIRE_ALL=1 makes an error of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from .requirements import TABLE

pytest_plugins = ["pytester"]

TESTS = Path(__file__).parent
CONFTEST = """
import pytest
from requirements import LeftOut, lack, require

def pytest_configure(config):
    config.addinivalue_line("markers", "requires(*names): x")
    config.pluginmanager.register(LeftOut())

@pytest.fixture(scope="session")
def archive():
    lack("Debian's archive", why="no route to host")

@pytest.fixture(scope="session")
def compiled():
    require("cc")
"""
SOURCE = """
import os
import pytest

@pytest.mark.requires("zsh")
def test_zsh(): pass

@pytest.mark.requires("zsh", "fish")
def test_both(): pass

def test_compiled(compiled): pass

def test_compiled_too(compiled): pass

def test_fetched(archive): pass

def test_other(): pytest.skip("no tracer blk")

@pytest.mark.requires("root" if os.geteuid() else "an ordinary user")
def test_of_another_user(): pass

@pytest.mark.requires("capstone")
def test_goes(): pass
"""
# REQUIRE_ALL asks for no other user than the one that there is
REMEDIES = [
    "To run them:",
    "    apt-get install zsh gcc libc6-dev fish",
    "    Debian's archive: a network that reaches it, and apt-get update",
]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pytest.RunResult]:
    """Run the tests on a machine without any program."""
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("REQUIRE_ALL", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_it=SOURCE)
    return lambda *words: pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", *words)


@pytest.mark.parametrize("workers", [(), pytest.param(("-n", "2"), marks=pytest.mark.requires("xdist"))])
def test_what_is_missing_is_named_with_what_brings_it(
    run: Callable[..., pytest.RunResult], workers: tuple[str, ...]
) -> None:
    done = run(*workers)
    done.assert_outcomes(passed=1, skipped=7)
    lines = done.stdout.str().splitlines()
    (said,) = (number for number, line in enumerate(lines) if line.startswith("LEFT OUT: "))
    head, _, counts = lines[said].partition(", for want of: ")
    assert head == "LEFT OUT: 6 tests"
    other = {"root (1)", "an ordinary user (1)"} & set(counts.split(", "))
    assert set(counts.split(", ")) == {"zsh (2)", "cc (2)", "fish (1)", "Debian's archive (1)"} | other
    assert len(other) == 1
    packages = next(line for line in lines if line.startswith("    apt-get install "))
    assert set(packages.split()[2:]) == {"zsh", "fish", "gcc", "libc6-dev"}
    assert "    Debian's archive: a network that reaches it, and apt-get update" in lines
    assert "    1  no tracer blk" in lines


def test_all_that_is_required_is_an_error_where_it_is_missing(
    run: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    """But that one run is root's and a user's, and what no package has."""
    monkeypatch.setenv("REQUIRE_ALL", "1")
    done = run()
    done.assert_outcomes(passed=1, skipped=2, errors=5)
    text = done.stdout.str()
    assert "REQUIRE_ALL=1, but this machine lacks zsh, fish\napt-get install zsh fish\n" in text
    assert "REQUIRE_ALL=1, but this machine lacks Debian's archive: no route to host\n" in text
    *_, end = text.partition("LEFT OUT: 6 tests, for want of: ")
    assert {"zsh (2)", "cc (2)", "fish (1)", "Debian's archive (1)"} <= set(end.splitlines()[0].split(", "))
    assert "short test summary info" not in end


def sources() -> dict[str, str]:
    own = ("requirements.py", "test_requirements.py")
    return {str(path.relative_to(TESTS)): path.read_text() for path in TESTS.rglob("*.py") if path.name not in own}


def test_no_test_is_left_out_in_another_way() -> None:
    """What else skips does so for what a kernel lacks."""
    ways = re.compile(r"skipif|importorskip|pytest\.skip|mark\.skip\b")
    assert {name for name, text in sources().items() if ways.search(text)} == {
        "conformance/older.py",
        "conformance/test_function_graph.py",
        "conformance/test_histograms.py",
        "conformance/test_leftovers.py",
        "conformance/test_sysctls.py",
        "conformance/test_watching.py",
        "kprobe_vm/test_leftovers.py",
    }


def test_the_table_has_what_is_required_and_no_more() -> None:
    asked = re.compile(r"(?<!not )\b(?:requires?|lacks?)\(([^)]*)\)")
    texts = [words for text in sources().values() for words in asked.findall(text)]
    named = {name for words in texts for name in re.findall(r'"([^"]+)"', words.partition("why=")[0])}
    named -= {"Python {request.param}"}
    pythons = {f"Python 3.{minor}" for minor in range(11, 15)}
    computed = {"bash", "zsh", "fish", "compression.zstd", "backports.zstd", *pythons}
    assert named | computed == set(TABLE)
