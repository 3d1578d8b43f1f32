"""What is said of a /dev/kvm that can't be used."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from kprobe_vm.cli import main
from kprobe_vm.host.accelerator import Verdict, kvm_trouble
from kprobe_vm.host.cache import Cache

USER = pwd.getpwuid(os.getuid()).pw_name


def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, group: int, groups: list[int]) -> str:
    """A device that the kernel refuses to this process, as `os` reports it."""
    path = tmp_path / "kvm"
    path.touch()
    monkeypatch.setattr(os, "access", lambda *_args, **_words: False)
    status = os.stat(path)
    told = SimpleNamespace(st_mode=0o020000 | mode, st_uid=0, st_gid=group)
    monkeypatch.setattr(os, "stat", lambda *_args, **_words: told)
    monkeypatch.setattr(os, "getgroups", lambda: groups)
    monkeypatch.setattr(grp, "getgrgid", lambda number: SimpleNamespace(gr_name={0: "root", 108: "kvm"}[number]))
    assert status.st_size == 0
    return str(path)


def test_one_that_is_not_there(tmp_path: Path) -> None:
    assert kvm_trouble(str(tmp_path / "kvm")) == "not there"


def test_one_that_can_be_opened(tmp_path: Path) -> None:
    (tmp_path / "kvm").touch()
    assert kvm_trouble(str(tmp_path / "kvm")) == ""


def test_one_for_a_group_names_the_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = device(tmp_path, monkeypatch, 0o660, 108, [1000])
    assert kvm_trouble(path) == (
        f"{path} is there but only for the group kvm: sudo usermod -aG kvm {USER}, then log in again"
    )


def test_one_for_root_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = device(tmp_path, monkeypatch, 0o600, 0, [1000])
    assert kvm_trouble(path) == f"{path} is there but not for {USER} (it is of root:root, mode 0600)"


def test_one_that_a_sandbox_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = device(tmp_path, monkeypatch, 0o660, 108, [1000, 108])
    assert kvm_trouble(path) == f"{path} is there, and {USER} in its group kvm, but something else refuses it"


def test_check_says_it(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KPROBE_VM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("kprobe_vm.cli.programs.missing", lambda _environment: [])
    monkeypatch.setattr("kprobe_vm.cli.programs.missing_python", list)
    monkeypatch.setattr("kprobe_vm.cli.programs.qemu", lambda: ("/usr/bin/qemu", "7.2"))
    monkeypatch.setattr("kprobe_vm.cli.kvm_trouble", lambda: "/dev/kvm is there but only for the group kvm: join it")
    assert main(["check"]) == 0
    assert capsys.readouterr().out == (
        "/usr/bin/qemu 7.2; KVM: /dev/kvm is there but only for the group kvm: join it, so guests are emulated\n"
    )


@pytest.mark.parametrize("damage", [b"", b"[]", b"3", b"{}", b"\xff"])
def test_a_damaged_verdict_is_none(tmp_path: Path, damage: bytes) -> None:
    verdict = Verdict(Cache(tmp_path), "7.2", "boot")
    verdict.write(False, "no")
    assert verdict.read() is False
    next((tmp_path / "kvm").glob("*.json")).write_bytes(damage)
    assert verdict.read() is None
