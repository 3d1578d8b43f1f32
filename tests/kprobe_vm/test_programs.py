from pathlib import Path

import pytest

from kprobe_vm import Machine, programs
from kprobe_vm.cache import Cache
from kprobe_vm.cli import main
from kprobe_vm.errors import PackageMissing, QemuMissing, QemuTooOld
from kprobe_vm.guest import agent


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
    with pytest.raises(QemuMissing) as caught:
        Machine("6.1", cache=Cache(tmp_path / "cache")).start()
    assert str(caught.value).count("\n") == 0
    assert str(caught.value).endswith("apt-get install qemu-system-x86")


@pytest.mark.usefixtures("empty_path")
def test_no_compiler_names_its_packages(tmp_path: Path) -> None:
    with pytest.raises(PackageMissing, match="apt-get install gcc libc6-dev"):
        agent(Cache(tmp_path / "cache"))


@pytest.mark.usefixtures("empty_path")
def test_check_prints_one_line_for_each_missing_thing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(programs.REQUIRED)
    assert [line.rpartition("apt-get install ")[2] for line in lines] == [
        *("qemu-system-x86", "gcc libc6-dev", "apt", "util-linux"),
    ]


@pytest.mark.usefixtures("empty_path")
def test_a_command_that_cannot_run_for_want_of_qemu_ends_with_114(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KPROBE_VM_CACHE", str(tmp_path / "cache"))
    assert main(["run", "6.1", "--", "true"]) == 114
    assert capsys.readouterr().err == (
        "kprobe-vm: qemu-system-x86_64 is not installed (runs the guest kernels): apt-get install qemu-system-x86\n"
    )


def test_an_old_qemu_is_told_from_a_missing_one(empty_path: Path) -> None:
    script(empty_path / "qemu-system-x86_64", "echo 'QEMU emulator version 2.8.1(Debian 1:2.8+dfsg-6)'")
    with pytest.raises(QemuTooOld, match=r"2\.8\.1.*; 5\.2 or newer is needed"):
        programs.qemu()


def test_a_qemu_that_does_not_run(empty_path: Path) -> None:
    script(empty_path / "qemu-system-x86_64", "exit 3")
    with pytest.raises(QemuTooOld, match="does not run"):
        programs.qemu()


def test_the_version_of_a_good_one(empty_path: Path) -> None:
    script(empty_path / "qemu-system-x86_64", "echo 'QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)'")
    assert programs.qemu()[1] == "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)"
