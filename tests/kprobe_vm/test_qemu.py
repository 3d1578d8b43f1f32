import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kprobe_vm.host.accelerator import Verdict
from kprobe_vm.host.cache import Cache
from kprobe_vm.machine.qemu import Descriptors, Hardware, arguments, dying_with

HARDWARE = Hardware(Path("/k/vmlinux"), Path("/k/root.cpio"), "tcg", command_line="quiet")
ENDS = Descriptors(agent=4, serial=7, console=5, control=6)


def following(line: list[str], option: str) -> list[str]:
    return [line[at + 1] for at, word in enumerate(line) if word == option]


def test_a_dead_kernel_ends_qemu() -> None:
    line = arguments(HARDWARE, ENDS)
    assert "-no-reboot" in line
    (append,) = following(line, "-append")
    assert {"panic=-1", "oops=panic", "nokaslr", "quiet"} <= set(append.split())
    assert "mitigations=off" not in append


def test_the_four_connections_are_inherited() -> None:
    line = arguments(HARDWARE, ENDS)
    assert following(line, "-chardev") == [
        "socket,id=console,fd=5",
        "socket,id=control,fd=6",
        "socket,id=serial,fd=7",
        "socket,id=agent,fd=4",
    ]
    assert following(line, "-serial") == ["chardev:console", "chardev:serial"]
    without = arguments(HARDWARE._replace(virtio=False), ENDS)
    assert following(without, "-device") == []


def test_kvm_shows_the_host_processor() -> None:
    assert following(arguments(HARDWARE, ENDS), "-cpu") == []
    line = arguments(HARDWARE._replace(accelerator="kvm"), ENDS)
    assert following(line, "-cpu") == ["host"]
    line = arguments(HARDWARE._replace(virtio=False), ENDS)
    assert following(line, "-cpu") == ["qemu64,-cx16"]


def test_the_verdict_on_kvm_holds_for_one_boot_of_the_host_and_one_qemu(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    verdict = Verdict(cache, "7.2.22", "boot-1")
    assert verdict.read() is None
    verdict.write(False, "no byte on the console in 5 s")
    assert Verdict(cache, "7.2.22", "boot-1").read() is False
    assert Verdict(cache, "7.2.22", "boot-2").read() is None
    assert Verdict(cache, "8.0.0", "boot-1").read() is None


@pytest.mark.parametrize(("parent", "output"), [(os.getpid, b"here\n"), (os.getppid, b"")])
def test_nothing_starts_for_a_parent_that_is_gone(parent: Callable[[], int], output: bytes) -> None:
    done = subprocess.run([*dying_with(parent()), "echo", "here"], stdout=subprocess.PIPE, timeout=30)
    assert done.stdout == output
