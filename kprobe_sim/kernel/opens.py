"""The activity `opens`, the default of a machine, as it would be parsed from TOML.

It is Python because importing a TOML parser takes longer than making a kernel, and most machines need no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kprobe_sim.builds.profile import CALLED

NEWEST = CALLED["open"][0]
_AT_FDCWD = 0xFFFFFF9C
_IDLE = "swapper/0-0"
_PRIORITY = 120  # of a task without a nice value
_INTERRUPTIBLE = 1  # TASK_INTERRUPTIBLE: it waits
# struct open_how, as bytes: the flags, and the mode of a new file
_READ = "00800000000000000000000000000000"  # O_LARGEFILE
_LOAD = "00800800000000000000000000000000"  # O_LARGEFILE | O_CLOEXEC, as the loader of programs opens libraries
_CREATE = "41020000000000009401000000000000"  # O_WRONLY | O_CREAT | O_TRUNC


def opens() -> dict[str, Any]:
    """Return the work of a small server since 5.6: supervise and cron open their files, a shell runs cat.

    A timer wakes each task; it opens its file by openat(2), and waits again.
    """
    calls = (
        _open("supervise-1689", "supervise/status.new", _CREATE, 9, 0.05),
        _open("cat-2841", "/etc/ld.so.cache", _LOAD, 3, 0.05),
        _open("cat-2841", "/lib/x86_64-linux-gnu/libc.so.6", _LOAD, 3, 0.01),
        _open("cat-2841", "/etc/hostname", _READ, 3, 0.01),
        _open("postgres-1172", "pg_stat_tmp/pgstat.stat", _READ, 12, 0.05),
        _open("cron-611", "/etc/crontab", _READ, -2, 0.1),
    )
    return {"repeat": True, "call": [step for call in calls for step in _woken(call)]}


def _open(task: str, path: str, how: str, returns: int, after: float) -> dict[str, Any]:
    return {
        "function": NEWEST,
        "task": task,
        "args": [_AT_FDCWD, path, {"hex": how}],
        "returns": returns,
        "caller": "__x64_sys_openat",
        "after": after,
        "system_call": {"name": "openat", "args": [_AT_FDCWD, path, *_flags_and_mode(bytes.fromhex(how))]},
    }


def _woken(call: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """Return what a task does between two waits: the CPU switches from the idle task to it, and back."""
    begin = _switch(_IDLE, call["task"], 0) | {"after": call["after"]}
    return begin, call | {"after": 0}, _switch(call["task"], _IDLE, _INTERRUPTIBLE) | {"after": 0}


def _switch(previous: str, following: str, state: int) -> dict[str, Any]:
    fields: dict[str, Any] = {"prev_state": state}
    for key, task in (("prev", previous), ("next", following)):
        comm, _, pid = task.rpartition("-")
        fields |= {f"{key}_comm": comm, f"{key}_pid": int(pid), f"{key}_prio": _PRIORITY}
    return {"event": "sched/sched_switch", "task": previous, "fields": fields}


def _flags_and_mode(how: bytes) -> tuple[int, int]:
    flags, mode = (int.from_bytes(how[start : start + 8], "little") for start in (0, 8))
    return flags, mode


def before_openat2(options: Mapping[str, Any], caller: str) -> dict[str, Any]:
    """Turn the options of a call of do_sys_openat2() into those of do_sys_open(), which `caller` calls."""
    dfd, path, how = options["args"]
    flags, mode = _flags_and_mode(how)
    return {**options, "args": (dfd, path, flags, mode), "caller": caller}
