"""From a spec to a tracefs, through entry points."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from kprobe.errors import UnknownBackend
from kprobe.tracefs.backends import GROUP, chosen, open_tracefs
from kprobe.tracefs.tracefs import LocalTracefs
from kprobe_text.entry_points import find, names


def install(info: Path, *points: str) -> None:
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: any\nVersion: 9\n")
    text = "\n".join(["[console_scripts]", "sim = os:getcwd", f"[{GROUP}]", *points, "[other]", "sim = os:getpid"])
    (info / "entry_points.txt").write_text(text)


@pytest.fixture(autouse=True)
def points(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Install backends, which give back their argument; those of the name sim and vm come before the project's own."""
    install(tmp_path / "kprobe_sim-9.dist-info", "sim = builtins:str", "vm=builtins:str", "", "# a comment")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("KPROBE_TRACEFS", raising=False)


@pytest.mark.parametrize(
    ("spec", "argument"), [("sim", ""), ("sim:6.1", "6.1"), ("sim:6.1,activity=a:b", "6.1,activity=a:b"), ("vm:", "")]
)
def test_the_argument_is_what_follows_the_first_colon(spec: str, argument: str) -> None:
    opened: Any = open_tracefs(spec)
    assert opened == argument


def test_local(tmp_path: Path) -> None:
    opened = open_tracefs(f"local:{tmp_path}")
    assert isinstance(opened, LocalTracefs)
    assert opened.root == str(tmp_path)


def test_spec_then_environment_then_local(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen() == "local"
    monkeypatch.setenv("KPROBE_TRACEFS", "sim:5.10")
    assert (chosen(), chosen("vm:6.1")) == ("sim:5.10", "vm:6.1")
    opened: Any = open_tracefs()
    assert opened == "5.10"


def test_an_unknown_one_lists_the_known() -> None:
    with pytest.raises(UnknownBackend) as caught:
        open_tracefs("qemu:6.1")
    assert (caught.value.name, caught.value.known) == ("qemu", ("local", "sim", "vm"))


def test_one_that_is_installed_while_the_process_runs_is_found(tmp_path: Path) -> None:
    assert find(GROUP, "late") is None
    install(tmp_path / "late-1.dist-info", "late = builtins:str [extra]")
    opened: Any = open_tracefs("late:x")
    assert opened == "x"
    assert names(GROUP) == {"sim", "vm", "late"}


def test_of_two_distributions_of_a_name_the_first_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    other.mkdir()
    install(other / "KProbe_sim-8.egg-info", "sim = builtins:int", "old = builtins:int")
    monkeypatch.setattr(sys, "path", [*sys.path, str(other)])
    opened: Any = open_tracefs("sim:7")
    assert opened == "7"
    assert find(GROUP, "old") is None


def test_one_in_an_archive_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        archive.writestr("packed-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: packed\nVersion: 1\n")
        archive.writestr("packed-1.dist-info/entry_points.txt", f"[{GROUP}]\npacked = builtins:str\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "packed.zip")])
    opened: Any = open_tracefs("packed:1")
    assert opened == "1"
