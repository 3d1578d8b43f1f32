"""Whether the process that made an instance is still there."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from kprobe.owners import holder

DEAD = 4194305  # one more than the highest pid of any Linux


def test_the_living_and_the_dead() -> None:
    assert holder(DEAD) == ""
    assert holder(os.getpid()).startswith(f"process {os.getpid()} (")


def test_a_process_that_is_dead_and_not_reaped() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert holder(child.pid) == f"process {child.pid} ({Path('/proc', str(child.pid), 'comm').read_text().strip()})"
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert holder(child.pid) == ""
    child.communicate()


def test_a_process_that_started_later_has_the_pid_of_a_dead_one() -> None:
    started = time.time() - (time.monotonic() - 0)  # no process is older than the boot
    assert holder(os.getpid(), made=started - 10) == ""
    assert holder(os.getpid(), made=time.time()) != ""


def process(
    proc: Path, pid: int, *, flags: int = 0x400000, pids: str = "", comm: str = "kprobe", state: str = "S"
) -> None:
    """Write down a process as /proc shows it."""
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "stat").write_text(
        f"{pid} ({comm}) {state} 1 1 1 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 100 0 0 0\n"
    )
    (proc / str(pid) / "status").write_text(f"Name:\t{comm}\nNSpid:\t{pids or pid}\n")


def test_a_thread_of_the_kernel_made_nothing(tmp_path: Path) -> None:
    process(tmp_path, 2, flags=0x208040, comm="kthreadd")
    assert holder(2, proc=str(tmp_path)) == ""


def test_a_process_of_a_container(tmp_path: Path) -> None:
    process(tmp_path, 4711, pids="4711\t7")
    assert holder(7, proc=str(tmp_path)) == "process 4711 (kprobe)"
    assert holder(8, proc=str(tmp_path)) == ""


def test_what_can_not_be_read_counts(tmp_path: Path) -> None:
    (tmp_path / "5").mkdir()
    (tmp_path / "5" / "stat").write_text("5 (odd")
    assert holder(5, proc=str(tmp_path)) == "process 5"


def test_a_name_may_hold_anything(tmp_path: Path) -> None:
    process(tmp_path, 6, comm="a) Z 1 (b")
    assert holder(6, proc=str(tmp_path)) == "process 6 (a) Z 1 (b)"
