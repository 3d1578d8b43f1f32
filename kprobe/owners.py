"""Is the process that made an instance still there?  Its pid may be another's by now."""

from __future__ import annotations

import os
import time

from .processes import PROC

KERNEL_THREAD = 0x00200000  # PF_KTHREAD, in the flags of /proc/PID/stat
DEAD = "ZX"  # states of a process that runs no more
MARGIN = 2.0  # seconds by which two clocks may differ


def holder(pid: int, made: float | None = None, proc: str = PROC) -> str:
    """Return who may have made an instance that carries `pid`, as "process 812 (python3)"; "" if that process is dead.

    `made` is when the instance was made, in seconds of the wall clock, None if that isn't known.  A process that can't
    have made it doesn't count: one that started later, a thread of the kernel, one that is dead and not reaped.  Where
    that isn't sure the process counts.  Processes of containers count by the pids that they have there.
    """
    for number in _numbers(pid, proc):
        try:
            with open(f"{proc}/{number}/stat", encoding="utf-8", errors="replace") as file:
                text = file.read()
            comm, fields = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 1 :].split()
            state, flags, threads, started = fields[0], int(fields[6]), int(fields[17]), int(fields[19])
        except FileNotFoundError:
            continue
        except (OSError, ValueError, IndexError):  # it may be the one
            return f"process {number}"
        if flags & KERNEL_THREAD or (state in DEAD and threads <= 1):
            continue
        if made is not None and _wall(started) > made + MARGIN:
            continue
        return f"process {number} ({comm})"
    return ""


def _numbers(pid: int, proc: str) -> list[int]:
    """Return the processes that have this pid, here or in a pid namespace below."""
    found = [pid] if os.path.exists(f"{proc}/{pid}") else []
    for name in os.listdir(proc):
        if not name.isdigit() or int(name) == pid:
            continue
        try:
            with open(f"{proc}/{name}/status", encoding="utf-8", errors="replace") as file:
                inner = next((line.split()[2:] for line in file if line.startswith("NSpid:")), [])
        except OSError:
            continue
        if str(pid) in inner:
            found.append(int(name))
    return found


def _wall(ticks: int) -> float:
    """Return the time of the wall clock at which a process started, from its start in ticks since the boot."""
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return booted + ticks / os.sysconf("SC_CLK_TCK")
