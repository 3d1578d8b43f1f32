"""Where tracefs is found, on a machine made of pyfakefs."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from pyfakefs.fake_filesystem import set_uid

from kprobe.errors import NotPermitted, TracefsMissing
from kprobe.tracefs.mounts import find_tracefs, permission_hint
from kprobe.tracefs.tracefs import LocalTracefs, open_local

MOUNTS = """\
sysfs /sys sysfs rw,nosuid,nodev,noexec,relatime 0 0
proc /proc proc rw,relatime 0 0
"""


def table(fs: Any, *lines: str) -> None:
    fs.create_file("/proc/self/mounts", contents=MOUNTS + "".join(line + "\n" for line in lines))


def test_by_mount_type_not_by_place(fs: Any) -> None:
    table(fs, "nodev /mnt/my\\040tracing tracefs rw,relatime 0 0")
    fs.create_dir("/mnt/my tracing/events")
    fs.create_dir("/sys/kernel/tracing/events")
    assert find_tracefs() == "/mnt/my tracing"


def test_a_source_called_tracefs_is_no_tracefs(fs: Any) -> None:
    table(fs, "tracefs /mnt/other tmpfs rw 0 0")
    fs.create_dir("/mnt/other/events")
    fs.create_dir("/sys/kernel/tracing/events")
    assert find_tracefs() == "/sys/kernel/tracing"


def test_an_empty_directory_is_not_mounted(fs: Any) -> None:
    table(fs)
    fs.create_dir("/sys/kernel/tracing")
    fs.create_dir("/sys/kernel/debug/tracing/events")
    assert find_tracefs() == "/sys/kernel/debug/tracing"


def test_a_mount_without_files(fs: Any) -> None:
    """As a kernel that is locked down leaves it."""
    table(fs, "tracefs /sys/kernel/tracing tracefs rw,relatime 0 0")
    fs.create_dir("/sys/kernel/tracing")
    with pytest.raises(TracefsMissing) as caught:
        find_tracefs()
    assert caught.value.looked_at[0] == ("/sys/kernel/tracing", "mounted, and empty")
    assert str(caught.value).endswith(
        "\nhint: a kernel that is locked down (confidentiality) leaves its tracefs empty"
        "; without one: --tracefs sim, a simulated kernel"
    )


def test_below_a_debugfs_elsewhere(fs: Any) -> None:
    table(fs, "nodev /debug debugfs rw 0 0")
    fs.create_dir("/debug/tracing/events")
    assert find_tracefs() == "/debug/tracing"


def test_without_a_mount_table(fs: Any) -> None:
    fs.create_dir("/sys/kernel/tracing/events")
    assert find_tracefs() == "/sys/kernel/tracing"


def test_every_place_looked_at_is_in_the_error(fs: Any) -> None:
    table(fs, "nodev /debug debugfs rw 0 0")
    fs.create_dir("/sys/kernel/tracing")
    fs.create_dir("/debug/tracing/instances")
    with pytest.raises(TracefsMissing) as caught:
        find_tracefs()
    assert caught.value.looked_at == (
        ("/proc/self/mounts", "no mount of type tracefs"),
        ("/sys/kernel/tracing", "an empty directory: not mounted"),
        ("/sys/kernel/debug/tracing", "No such file or directory"),
        ("/debug/tracing", "a directory without events"),
    )
    assert str(caught.value) == (
        "no tracefs found. Looked at:\n"
        "  /proc/self/mounts: no mount of type tracefs\n"
        "  /sys/kernel/tracing: an empty directory: not mounted\n"
        "  /sys/kernel/debug/tracing: No such file or directory\n"
        "  /debug/tracing: a directory without events\n"
        "hint: mount it: mount -t tracefs nodev /sys/kernel/tracing; without one: --tracefs sim, a simulated kernel"
    )


def test_one_that_is_closed_to_us(fs: Any) -> None:
    set_uid(0)
    table(fs, "nodev /sys/kernel/tracing tracefs rw 0 0")
    fs.create_dir("/sys/kernel/tracing/events")
    fs.chmod("/sys/kernel/tracing", 0o700)
    set_uid(1000)
    with pytest.raises(NotPermitted) as caught:
        find_tracefs()
    assert (caught.value.path, caught.value.errno) == ("/sys/kernel/tracing", errno.EACCES)
    assert "run it as root" in str(caught.value)


def test_open_local(fs: Any) -> None:
    table(fs)
    fs.create_file("/sys/kernel/tracing/events/enable", contents="0\n")
    fs.create_file("/elsewhere/tracing_on", contents="1\n")
    assert open_local("").root == "/sys/kernel/tracing"
    assert open_local("/elsewhere").read("tracing_on") == b"1\n"
    with pytest.raises(TracefsMissing) as caught:
        open_local("/nowhere")
    assert caught.value.looked_at[0][0] == "/nowhere"


def test_local_tracefs_on_a_machine_of_pyfakefs(fs: Any) -> None:
    fs.create_file("/t/kprobe_events", contents="p:kprobes/a vfs_read\n")
    fs.create_dir("/t/instances")
    tracefs = LocalTracefs("/t")
    tracefs.write("kprobe_events", b"p:b vfs_read\n")
    assert tracefs.read("kprobe_events") == b"p:kprobes/a vfs_read\np:b vfs_read\n"
    tracefs.write("kprobe_events", b"\n", truncate=True)
    assert tracefs.read("kprobe_events") == b"\n"
    tracefs.mkdir("instances/mine")
    assert tracefs.listdir("instances") == ["mine"]
    assert sorted(tracefs.listdir("")) == ["instances", "kprobe_events"]
    tracefs.rmdir("instances/mine")
    assert not tracefs.exists("instances/mine")
    assert tracefs.exists("instances")


@pytest.mark.parametrize(
    ("lockdown", "options", "hint"),
    [
        ("none integrity [confidentiality]", "rw", "the kernel is locked down (confidentiality)"),
        ("none [integrity] confidentiality", "rw", "the kernel is locked down (integrity)"),
        ("[none] integrity confidentiality", "ro,relatime", "/sys/kernel/tracing is mounted read-only"),
        ("[none] integrity confidentiality", "rw", "run it as root"),
    ],
)
def test_why_a_write_may_be_denied(fs: Any, lockdown: str, options: str, hint: str) -> None:
    table(fs, f"nodev /sys/kernel/tracing tracefs {options} 0 0")
    fs.create_file("/sys/kernel/security/lockdown", contents=lockdown + "\n")
    assert permission_hint("/sys/kernel/tracing").startswith(hint)
