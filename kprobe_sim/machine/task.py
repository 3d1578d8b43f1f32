"""Tasks of the simulated machine, and what the tracer remembers of their names."""

from __future__ import annotations

from collections import OrderedDict

from kprobe_sim.named_tuple import NamedTuple

_COMM = 15  # TASK_COMM_LEN - 1


class Task(NamedTuple):
    """A task: thread id, command name (cut to 15 bytes), thread group id (default: the pid).

    `user_stack` is the call chain in its program, the innermost address first, as the option userstacktrace shows it;
    a kernel thread has none.
    `known` False: the tracer doesn't know its name, because it was never scheduled while traced or another task's name
    replaced it: its lines print `<...>`.
    """

    pid: int
    comm: str | bytes
    tgid: int | None = None
    known: bool = True
    user_stack: tuple[int, ...] = ()

    @property
    def name(self) -> bytes:
        """The command name in bytes, as the kernel keeps it."""
        comm = self.comm if isinstance(self.comm, bytes) else self.comm.encode("utf-8", "surrogateescape")
        return comm.split(b"\0", 1)[0][:_COMM]


class SavedCmdlines:
    """The kernel's cache of pid -> comm (trace.c `savedcmd`): newest `size` pids, keyed by the low 15 bits."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.version = 0  # changes whenever `find` or `tgid` may return something else
        self.newest: Task | None = None  # the task that was saved last: it needn't be saved again
        self._slots: OrderedDict[int, tuple[int, bytes, Task]] = OrderedDict()  # pid, name, and the task
        self._tgids: dict[int, int] = {}

    def save(self, task: Task) -> None:
        """Remember a task's name; the oldest goes when the cache is full."""
        self.newest = task
        if not task.pid:
            return
        key = task.pid & 0x7FFF
        known = self._slots.get(key)
        if known is not None:
            pid, name, before = known
            if before is task or (pid, name) == (task.pid, task.name):
                return
        elif len(self._slots) >= self.size:
            self._slots.popitem(last=False)
        self._slots[key] = task.pid, task.name, task
        self.version += 1

    def forget(self, task: Task) -> None:
        """Forget a task's name, as if another task's had replaced it."""
        known = self._slots.get(task.pid & 0x7FFF)
        if known is not None and known[0] == task.pid:
            del self._slots[task.pid & 0x7FFF]
            self.newest = None
            self.version += 1

    def save_tgid(self, task: Task) -> None:
        """Remember a task's thread group."""
        tgid = task.pid if task.tgid is None else task.tgid
        if task.pid and self._tgids.get(task.pid) != tgid:
            self._tgids[task.pid] = tgid
            self.version += 1

    def find(self, pid: int) -> bytes:
        """Return the name to print for a pid."""
        if pid == 0:
            return b"<idle>"
        if pid < 0:
            return b"<XXX>"
        saved = self._slots.get(pid & 0x7FFF)
        return saved[1] if saved is not None and saved[0] == pid else b"<...>"

    def tgid(self, pid: int) -> int:
        """Return the thread group of a pid, 0 if not recorded."""
        return self._tgids.get(pid, 0)

    def resize(self, size: int) -> None:
        """Replace the cache by an empty one of another size, as a write to saved_cmdlines_size does."""
        self.size = size
        self._slots.clear()
        self.newest = None
        self.version += 1

    def text(self) -> bytes:
        """Return the text of saved_cmdlines."""
        return b"".join(b"%d %s\n" % (pid, self.find(pid)) for pid, _, _ in self._slots.values())

    def tgids_text(self) -> bytes:
        """Return the text of saved_tgids."""
        return b"".join(b"%d %d\n" % item for item in sorted(self._tgids.items()))
