"""Whose a session is, by its name, and whether that process is still there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kprobe.undo.owners import FIRST_NAMESPACE, Owner, holder, read_session, this_process

DEAD = Owner(4194305, 1, this_process().namespace)  # one more than the highest pid of any Linux


@pytest.mark.parametrize(
    ("name", "owner", "is_named"),
    [
        ("kprobe_812_5573901_0", Owner(812, 5573901), False),
        ("kprobe_812_0_17", Owner(812), False),
        ("kprobe_812_5573901_3_named", Owner(812, 5573901), True),
        ("kprobe_7_5573901_0_ns4026532204", Owner(7, 5573901, 4026532204), False),
        ("kprobe_7_5573901_0_ns4026532204_named", Owner(7, 5573901, 4026532204), True),
    ],
)
def test_names_of_sessions(name: str, owner: Owner, is_named: bool) -> None:
    session = read_session(name)
    assert session is not None
    assert (session.owner, session.is_named) == (owner, is_named)
    assert owner.session(int(name.split("_")[3]), is_named=is_named) == name


@pytest.mark.parametrize(
    "name",
    [
        *("kprobes", "kprobe", "kprobe_", "kprobe_812_0", "kprobe_812_1_0_x", "kprobe_812_1_0_named_ns7"),
        *(
            "kprobe_0812_1_0",
            "kprobe_812_+1_0",
            "mykprobe_812_1_0",
            "kprobe_812_1_0_ns0",
            "kprobe_812_1__0",
            "kprobe_0_1_0",
        ),
        *("kprobe_812_1_0_named_named", "kprobe_²_1_0", "kprobe_0_1_0", f"kprobe_812_{'9' * 30}_0"),
    ],
)
def test_names_of_others(name: str) -> None:
    assert read_session(name) is None


def test_the_living_and_the_dead() -> None:
    me = this_process()
    assert me.pid == os.getpid()
    assert me.started == int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    assert holder(me).startswith(f"process {os.getpid()} (")
    assert holder(DEAD) == ""


def test_a_process_that_is_dead_and_not_reaped() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = this_process(pid=child.pid)
    assert holder(owner) == f"process {child.pid} ({Path('/proc', str(child.pid), 'comm').read_text().strip()})"
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert holder(owner) == ""
    child.communicate()


def test_another_process_has_the_pid_of_a_dead_one() -> None:
    me = this_process()
    assert holder(Owner(me.pid, me.started - 1, me.namespace)) == ""


def process(
    proc: Path, pid: int, *, flags: int = 0x400000, pids: str = "", comm: str = "kprobe", state: str = "S"
) -> None:
    """Write down a process as /proc shows it; it started at 100."""
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "stat").write_text(
        f"{pid} ({comm}) {state} 1 1 1 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 100 0 0 0\n"
    )
    (proc / str(pid) / "status").write_text(f"Name:\t{comm}\nNSpid:\t{pids or pid}\n")


def test_a_thread_of_the_kernel_made_nothing(tmp_path: Path) -> None:
    process(tmp_path, 2, flags=0x208040, comm="kthreadd")
    assert holder(Owner(2), proc=str(tmp_path)) == ""


def test_a_process_of_a_container(tmp_path: Path) -> None:
    process(tmp_path, 4711, pids="4711\t7")
    assert holder(Owner(7, 100, 4026532204), proc=str(tmp_path)) == "process 4711 (kprobe)"
    assert holder(Owner(7, 101, 4026532204), proc=str(tmp_path)) == ""
    assert holder(Owner(8, 100, 4026532204), proc=str(tmp_path)) == ""
    assert holder(Owner(7, 100), proc=str(tmp_path)) == ""  # of the first namespace, where 7 is another pid


def test_a_container_can_not_tell_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stat:
        st_ino = FIRST_NAMESPACE - 5

    monkeypatch.setattr("kprobe.undo.owners.os.stat", lambda path: Stat)
    assert holder(DEAD) == "process 4194305 of another container"


def test_what_can_not_be_read_counts(tmp_path: Path) -> None:
    (tmp_path / "5").mkdir()
    (tmp_path / "5" / "stat").write_text("5 (odd")
    assert holder(Owner(5), proc=str(tmp_path)) == "process 5"


def test_a_name_may_hold_anything(tmp_path: Path) -> None:
    process(tmp_path, 6, comm="a) Z 1 (b")
    assert holder(Owner(6, 100), proc=str(tmp_path)) == "process 6 (a) Z 1 (b)"
