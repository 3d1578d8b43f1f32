"""The manual pages: by the tables of options, without a warning, and shown by man(1)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ("kprobe", "kprobe-sim", "kprobe-vm")


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, env={"MANWIDTH": "80", "LANG": "C.UTF-8"})


def test_they_are_up_to_date(loaded: Callable[[Path], ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert loaded(ROOT / "tools" / "docs" / "manpages.py").main(["--check"]) == 0


@pytest.mark.requires("mandoc", "groff")
@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_wrong_with_them(name: str) -> None:
    path = str(ROOT / "man" / f"{name}.1")
    assert run("mandoc", "-Tlint", "-W", "style", path).stdout == ""
    assert run("groff", "-ww", "-man", "-Tutf8", path).stderr == ""


@pytest.mark.requires("man")
def test_man_shows_them() -> None:
    shown = run("man", "-l", str(ROOT / "man" / "kprobe.1"))
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert "       kprobe - trace kernel probes through tracefs, and leave nothing behind" in lines
    assert "       kprobe functions NAME|PATTERN ... [-v] [--tracefs SPEC]" in lines
    assert "   kprobe clean" in lines
    assert "       -h, --help" in lines
    assert "       kprobe 'p:do_sys_openat2 file=+0($arg2):ustring' 'file ~ \"*stat\"'" in lines
    assert "       141    nobody reads the output any more" in lines


@pytest.mark.requires("man")
@pytest.mark.parametrize(
    ("name", "verbs"),
    [("kprobe-sim", ["run", "mount", "profiles", "text", "replay"]), ("kprobe-vm", ["boot", "run", "test", "matrix"])],
)
def test_every_verb_has_its_section(name: str, verbs: list[str]) -> None:
    shown = run("man", "-l", str(ROOT / "man" / f"{name}.1")).stdout.splitlines()
    assert {f"   {name} {verb}" for verb in verbs} <= set(shown)
