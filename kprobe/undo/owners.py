"""The owner of a session's event group or instance, by its name, and whether that process still exists."""

from __future__ import annotations

import os
from collections.abc import Iterator

from .processes import PROC

KERNEL_THREAD = 0x00200000  # PF_KTHREAD, in the flags of /proc/PID/stat
DEAD = "ZX"  # states of a process that has ended
FIRST_NAMESPACE = 0xEFFFFFFC  # inode of the first pid namespace (PROC_PID_INIT_INO)
PREFIX = "kprobe"
NAMED = "named"


class Owner:
    """A tracing process, as encoded in the names of its sessions.

    `started` is when it started, in clock ticks since boot (field 22 of /proc/PID/stat); 0 if unknown.
    `namespace` is the inode of its pid namespace, 0 for the first one, in which all processes have a pid.
    """

    __slots__ = ("namespace", "pid", "started")

    def __init__(self, pid: int, started: int = 0, namespace: int = 0) -> None:
        self.pid = pid
        self.started = started
        self.namespace = namespace

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Owner) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Owner{self._key()}"

    def _key(self) -> tuple[int, int, int]:
        return (self.pid, self.started, self.namespace)

    def session(self, number: int, *, is_named: bool = False) -> str:
        """Return the name of its session `number`: kprobe_PID_STARTED_NUMBER.

        `is_named`: the user named the events' group, which then isn't this name.
        """
        name = f"{PREFIX}_{self.pid}_{self.started}_{number}"
        if self.namespace:
            name += f"_ns{self.namespace}"
        return f"{name}_{NAMED}" if is_named else name


class Session:
    """A session's name, parsed: its owner, and whether the user named the group of its events."""

    __slots__ = ("is_named", "owner")

    def __init__(self, owner: Owner, is_named: bool) -> None:
        self.owner = owner
        self.is_named = is_named


def read_session(name: str) -> Session | None:
    """Parse the name of a group or an instance; None unless `Owner.session` made it."""
    prefix, *words = name.split("_")
    is_named = words[3:] != [] and words[-1] == NAMED
    if is_named:
        words.pop()
    namespace = words.pop()[2:] if len(words) == 4 and words[3].startswith("ns") else "0"
    numbers = [_number(word) for word in (*words, namespace)]
    if prefix != PREFIX or len(numbers) != 4 or None in numbers or not numbers[0]:
        return None
    pid, started, number, inside = (value or 0 for value in numbers)
    owner = Owner(pid, started, inside)
    return Session(owner, is_named) if owner.session(number, is_named=is_named) == name else None


def this_process(proc: str = PROC, pid: int | None = None) -> Owner:
    """Return this process as an owner."""
    pid = os.getpid() if pid is None else pid
    try:
        started = _Process(proc, pid).started
    except (OSError, ValueError, IndexError):
        started = 0
    return Owner(pid, started, _namespace(proc, "self") or 0)


def holder(owner: Owner, proc: str = PROC) -> str:
    """Return who the owner is, as "process 812 (python3)"; "" if that process is dead.

    A process doesn't count if it can't be the owner: it started at another time, is a kernel thread, or is dead and not
    reaped.  In doubt it counts.
    """
    our_namespace = _namespace(proc, "self") or 0
    if our_namespace and our_namespace != owner.namespace:
        return f"process {owner.pid} of another container"  # whose processes can't be seen from here
    for number in _numbers(owner, our_namespace, proc):
        try:
            process = _Process(proc, number)
        except FileNotFoundError:
            continue
        except (OSError, ValueError, IndexError):  # it may be the owner
            return f"process {number}"
        if process.is_dead or (owner.started and process.started != owner.started and _has_our_time(proc, number)):
            continue
        return f"process {number} ({process.comm})"
    return ""


class _Process:
    """The contents of /proc/PID/stat.  Raise `OSError`, `ValueError` or `IndexError` if it can't be read."""

    __slots__ = ("comm", "is_dead", "started")

    def __init__(self, proc: str, pid: int) -> None:
        with open(f"{proc}/{pid}/stat", encoding="utf-8", errors="replace") as file:
            text = file.read()
        fields = text[text.rindex(")") + 1 :].split()
        self.comm = text[text.index("(") + 1 : text.rindex(")")]
        self.is_dead = bool(int(fields[6]) & KERNEL_THREAD) or (fields[0] in DEAD and int(fields[17]) <= 1)
        self.started = int(fields[19])


def _numbers(owner: Owner, our_namespace: int, proc: str) -> Iterator[int]:
    """Yield the pids, in our namespace, of processes with the owner's pid in the owner's namespace."""
    if owner.namespace == our_namespace:
        if os.path.exists(f"{proc}/{owner.pid}"):
            yield owner.pid
        return
    for name in os.listdir(proc):
        if not name.isdigit():
            continue
        try:
            with open(f"{proc}/{name}/status", encoding="utf-8", errors="replace") as file:
                inner = next((line.split()[2:] for line in file if line.startswith("NSpid:")), [])
        except OSError:
            continue
        if str(owner.pid) in inner and _namespace(proc, name) in (owner.namespace, None):
            yield int(name)


def _namespace(proc: str, process: str) -> int | None:
    """Return the inode of a process's pid namespace, 0 for the first one; None if it isn't visible."""
    try:
        inode = os.stat(f"{proc}/{process}/ns/pid").st_ino
    except OSError:
        return None
    return 0 if inode == FIRST_NAMESPACE else inode


def _has_our_time(proc: str, pid: int) -> bool:
    """True if a process's start time has the same origin as ours; False if it may be in a time namespace."""
    try:
        return os.stat(f"{proc}/{pid}/ns/time").st_ino == os.stat(f"{proc}/self/ns/time").st_ino
    except FileNotFoundError:
        return True  # Linux before 5.6 has no such namespaces
    except OSError:
        return False


def _number(word: str) -> int | None:
    """Return the number that `Owner.session` wrote; None for any other word."""
    return int(word) if word.isascii() and word.isdigit() and len(word) < 21 and word == str(int(word)) else None
