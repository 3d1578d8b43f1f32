"""tools/guests/profiles.py: which kernels are recorded, what stays in the directory, how a failure is reported."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kprobe_vm.errors import MachineError

from .kprobe_sim import toy_profile

TOOL = Path(__file__).parent.parent / "tools" / "guests" / "profiles.py"
EXTRA = ["6.12-amd64", "6.12-rt-amd64", "6.16", "6.17", "6.18", "6.19", "7.0", "7.1"]  # of the lock, not packaged


@pytest.fixture
def tool(loaded: Callable[[Path], ModuleType], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The tool, with an empty directory for the distribution and a recorder that needs no machine."""
    tool = loaded(TOOL)

    def record(kernel: str, into: Path, progress: Callable[..., Any]) -> Path:
        if kernel == "6.17":
            raise MachineError("it panicked")
        release = f"{kernel}.9-toy"
        return toy_profile.write(into / release, release=release, version=f"{kernel.partition('-')[0]}.9")

    monkeypatch.setattr(tool, "record_kernel", record)
    monkeypatch.setattr(tool, "DISTRIBUTION", tmp_path / "distribution")
    return tool


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def index_of(directory: Path) -> str:
    rows = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in directory.glob("*.kprofile")]
    return "".join(sorted(rows, key=lambda row: row[66:]))


def test_kernels_are_recorded_into_a_directory_with_its_index(
    tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "profiles"
    assert tool.main([str(place), "6.16", "7.1"]) == 0
    assert names(place) == ["6.16.9-toy.kprofile", "7.1.9-toy.kprofile", "SHA256SUMS"]
    assert (place / "SHA256SUMS").read_text() == index_of(place)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" MB")[0] for line in lines] == [
        "1 of 2: 6.16: 6.16.9-toy.kprofile, 0.0",
        "2 of 2: 7.1: 7.1.9-toy.kprofile, 0.0",
    ]


def test_one_that_fails_is_named_and_the_others_are_there(
    tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tool.main([str(tmp_path / "profiles"), "6.17", "6.16"]) == 1
    assert names(tmp_path / "profiles") == ["6.16.9-toy.kprofile", "SHA256SUMS"]
    assert capsys.readouterr().err == "1 of 2: 6.17 failed: it panicked\nfailed: 6.17\n"


def test_the_distribution_holds_what_the_package_lacks(tool: ModuleType) -> None:
    assert tool.unpackaged() == EXTRA


def test_what_is_in_the_distribution_of_an_earlier_run_goes_only_when_all_kernels_were_recorded(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "distribution"
    place.mkdir()
    (place / "6.16.8-toy.kprofile").touch()
    (place / "__init__.py").touch()
    assert tool.main(["--distribution"]) == 1
    assert "6.16.8-toy.kprofile" in names(place)
    assert tool.main(["--distribution", "6.18"]) == 0
    assert "6.16.8-toy.kprofile" in names(place)
    monkeypatch.setattr(tool, "unpackaged", lambda: ["6.16", "6.18"])
    assert tool.main(["--distribution"]) == 0
    assert names(place) == ["6.16.9-toy.kprofile", "6.18.9-toy.kprofile", "SHA256SUMS", "__init__.py"]
    assert (place / "SHA256SUMS").read_text() == index_of(place)


@pytest.mark.parametrize("words", [[], ["--help"]])
def test_its_usage(tool: ModuleType, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main(words) == 2
    assert "Usage: profiles.py DIRECTORY [KERNEL ...]" in capsys.readouterr().err
