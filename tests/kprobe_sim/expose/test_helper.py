"""`kprobe-sim mount` by a user who may not mount: through fusermount3, from its Debian package, as nobody."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .conftest import ROOT, Requires

NOBODY = "65534"


@pytest.fixture(scope="module")
def place(can_mount: None, requires: Requires, unpacked: Callable[..., Path]) -> Iterator[Path]:
    """A directory that everybody can read, with the program (set-user-id) and the simulator, and `m` to mount on."""
    requires("/etc/mtab")  # in which fusermount3 looks
    requires("root")  # to install a set-user-id program, and to become another user
    package = unpacked("fuse3")
    found = Path("/tmp") / f"kprobe-sim-helper-{os.getpid()}"  # tmp_path is for its owner only
    try:
        shutil.copytree(ROOT / "kprobe_sim", found / "kprobe_sim", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(package / "bin" / "fusermount3", found)
        (found / "fusermount3").chmod(0o4755)
        (found / "m").mkdir()
        os.chown(found / "m", int(NOBODY), int(NOBODY))
        found.chmod(0o755)
        yield found
    finally:
        shutil.rmtree(found, ignore_errors=True)


def as_nobody(place: Path, script: str, path: str) -> subprocess.CompletedProcess[str]:
    """Run a script as nobody, where /dev/fuse has its usual mode."""
    python = next(name for name in ("/usr/bin/python3", sys.executable) if os.access(name, os.X_OK))
    become = (
        f"test -e {place}/fuse || mknod {place}/fuse c 10 229; chmod 666 {place}/fuse; "
        f"mount --bind {place}/fuse /dev/fuse; cd /; "
        f"exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups env PATH={path} PYTHONPATH={place} /bin/sh -c "
        f"'mount_here() {{ exec {python} -m kprobe_sim.cli mount --kernel 6.1 --activity none {place}/m; }}; {script}'"
    )
    return subprocess.run(["unshare", "-m", "sh", "-c", become], capture_output=True, text=True, timeout=60)


@pytest.mark.slow
def test_a_user_mounts_and_unmounts(place: Path) -> None:
    script = f"""
mount_here & until grep -q "{place}/m fuse.tracefs" /proc/mounts || ! kill -0 $!; do :; done
cd {place}/m; stat -c %a,%U trace; echo p:probe do_sys_openat2 > kprobe_events; cat kprobe_events; cd /
fusermount3 -u {place}/m; wait; grep -c {place}/m /proc/mounts
"""
    done = as_nobody(place, script, f"{place}:{os.environ['PATH']}")
    assert done.stdout == "640,nobody\np:kprobes/probe do_sys_openat2\n0\n"
    assert done.stderr == f"kprobe-sim: 6.1.0-54-cloud-amd64 on {place}/m; interrupt (Ctrl-C) to unmount\n"


@pytest.mark.parametrize("number", ["TERM", "KILL"])
def test_nothing_is_left_when_it_ends(place: Path, number: str) -> None:
    script = f"""
mount_here & until grep -q "{place}/m fuse.tracefs" /proc/mounts || ! kill -0 $!; do :; done
kill -{number} $!; wait
while grep -q {place}/m /proc/mounts; do :; done; ls {place}/m
"""
    done = as_nobody(place, script, f"{place}:{os.environ['PATH']}")
    assert done.stdout == ""


def test_without_the_helper(place: Path) -> None:
    done = as_nobody(place, "(mount_here); echo $?", "/nowhere")
    assert done.stdout == "125\n"
    assert "install fuse3, whose fusermount3 mounts for users, or use 'kprobe-sim run -- COMMAND'" in done.stderr
