from pathlib import Path

import pytest

from kprobe_vm import Machine
from kprobe_vm.cli import main
from kprobe_vm.errors import BuildFailed, CompilerMissing, QemuMissing, QemuTooOld, WrongArchitecture
from kprobe_vm.host import programs
from kprobe_vm.host.cache import Cache
from kprobe_vm.images.root import agent

from .fetch.archive import bzimage


@pytest.fixture
def empty_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    return directory


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.usefixtures("empty_path")
def test_a_machine_without_qemu_says_which_package(tmp_path: Path) -> None:
    (tmp_path / "bzImage").write_bytes(bzimage("6.1.0-mine"))
    with pytest.raises(QemuMissing) as caught:
        Machine(f"{tmp_path}/bzImage", cache=Cache(tmp_path / "cache")).start()
    assert str(caught.value).count("\n") == 0
    assert str(caught.value).endswith("apt-get install qemu-system-x86")


@pytest.mark.usefixtures("empty_path")
def test_no_compiler_names_its_packages(tmp_path: Path) -> None:
    with pytest.raises(CompilerMissing, match="apt-get install gcc libc6-dev"):
        agent(Cache(tmp_path / "cache"))


@pytest.mark.usefixtures("empty_path")
def test_check_names_all_that_is_missing_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "KEYRING", "/nonexistent")
    assert main(["check"]) == 1
    assert capsys.readouterr().out == (
        "missing: qemu-system-x86_64, cc, apt-get, setpriv, Debian's keyring; to get them: "
        "apt-get install qemu-system-x86 gcc libc6-dev apt util-linux debian-archive-keyring\n"
    )


def test_a_compiler_without_a_libc(
    empty_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("qemu-system-x86_64", "apt-get", "setpriv"):
        script(empty_path / name, "exit 0")
    script(empty_path / "cc", "echo libc.a")  # what gcc says if it has found none
    monkeypatch.setattr(programs, "KEYRING", "/")
    assert main(["check"]) == 1
    assert capsys.readouterr().out == "missing: libc.a; to get them: apt-get install libc6-dev\n"


@pytest.mark.usefixtures("empty_path")
def test_with_an_index_apt_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "KEYRING", "/")
    assert "apt-get" in [program.name for program in programs.missing({})]
    names = [program.name for program in programs.missing({"KPROBE_VM_INDEX": "http://mirror.example/debian"})]
    assert names == ["qemu-system-x86_64", "cc", "setpriv", "gpgv"]


@pytest.mark.usefixtures("empty_path")
def test_a_command_that_cannot_run_for_want_of_qemu_ends_with_114(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KPROBE_VM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "bzImage").write_bytes(bzimage("6.1.0-mine"))
    assert main(["run", f"{tmp_path}/bzImage", "--", "true"]) == 114
    assert capsys.readouterr().err == (
        "kprobe-vm: qemu-system-x86_64 is not installed (runs the guest kernels): apt-get install qemu-system-x86\n"
    )


def test_an_old_qemu_is_told_from_a_missing_one(empty_path: Path) -> None:
    script(empty_path / "qemu-system-x86_64", "echo 'QEMU emulator version 2.8.1(Debian 1:2.8+dfsg-6)'")
    with pytest.raises(QemuTooOld, match=r"2\.8\.1.*; 5\.2 or newer is needed"):
        programs.qemu()
    (empty_path / "bzImage").write_bytes(bzimage("6.1.0-mine"))
    assert main(["-q", "boot", f"{empty_path}/bzImage"]) == 111


def test_a_compiler_for_another_processor(empty_path: Path, tmp_path: Path) -> None:
    head = "\\177ELF\\2\\1\\1" + "\\0" * 9 + "\\2\\0\\267\\0"  # e_machine of AArch64, elf(5)
    script(empty_path / "cc", f"printf '{head}' >\"$7\"")
    with pytest.raises(WrongArchitecture, match="cc compiles for arm64, not for x86-64"):
        agent(Cache(tmp_path / "cache"))


def test_a_compiler_that_refuses(empty_path: Path, tmp_path: Path) -> None:
    script(empty_path / "cc", "echo 'agent.c:1:10: fatal error: errno.h: No such file or directory' >&2; exit 1")
    with pytest.raises(BuildFailed, match=r"apt-get install gcc libc6-dev\): agent\.c:1:10: fatal error: errno\.h"):
        agent(Cache(tmp_path / "cache"))


def test_a_qemu_that_does_not_run(empty_path: Path) -> None:
    script(empty_path / "qemu-system-x86_64", "exit 3")
    with pytest.raises(QemuTooOld, match="does not run"):
        programs.qemu()


def test_the_version_of_a_good_one(empty_path: Path) -> None:
    script(empty_path / "qemu-system-x86_64", "echo 'QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)'")
    assert programs.qemu()[1] == "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)"
