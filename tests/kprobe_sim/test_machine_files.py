"""The files of the machine, and the errno of what is none (as guests answer: fixtures/kinds)."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from kprobe_sim import SimulatedKernel
from kprobe_sim.machine.machine_files import MachineFiles


@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("", errno.ENOENT),
        ("/nosuch", errno.ENOENT),
        ("/bin/busybox/x", errno.ENOTDIR),
        ("/" + "x" * 256, errno.ENAMETOOLONG),
        ("/x" * 2100, errno.ENAMETOOLONG),
    ],
)
def test_paths_that_lead_nowhere(path: str, number: int) -> None:
    with pytest.raises(OSError) as refused:
        MachineFiles().find(path)
    assert refused.value.errno == number


def test_one_file_under_several_names() -> None:
    files = MachineFiles()
    names = ("/bin/busybox", "/bin/sh", "bin/busybox", "//bin//busybox", "/bin/../bin/./busybox")
    assert len({files.find(name).identity for name in names}) == 1
    assert files.find("/bin/dash").identity != files.find("/bin/sh").identity
    assert not files.find("/bin").is_regular
    assert not files.find("/proc/version").mappable


def test_a_file_that_is_added() -> None:
    kernel = SimulatedKernel("6.1")
    kernel.files.add("/opt/tool/bin/tool", 0x2000)
    kernel.tracefs.write("uprobe_events", b"p:up /opt/tool/bin/tool:0x2001\n")
    with pytest.raises(OSError) as refused:
        kernel.tracefs.write("events/uprobes/up/enable", b"1")
    assert refused.value.errno == errno.EINVAL  # past the end of the file
    kernel.tracefs.write("uprobe_events", b"-:up\np:up /opt/tool/bin/tool:0x1fff\n")
    kernel.tracefs.write("events/uprobes/up/enable", b"1")
    assert kernel.tracefs.read("events/uprobes/up/enable") == b"1\n"


def test_the_files_of_this_machine(tmp_path: Path) -> None:
    program, link = tmp_path / "program", tmp_path / "link"
    program.write_bytes(b"\x7fELF")
    link.symlink_to(program)
    files = MachineFiles()
    files.follow_host()
    found = files.find(str(program))
    assert (found.size, found.is_regular, found.mappable) == (4, True, True)
    assert files.find(str(link)).identity == found.identity
    assert not files.find(str(tmp_path)).is_regular
    with pytest.raises(FileNotFoundError):
        files.find(str(tmp_path / "nosuch"))
