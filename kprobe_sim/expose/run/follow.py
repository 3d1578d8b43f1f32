"""Activity that follows the callers: what programs in `kprobe-sim run` do happens on the simulated machine, too.

This process traces the command and its descendants (ptrace(2); no root needed).  A seccomp filter stops them only at
the system calls that are followed; where the result matters, they stop again as they leave the call.  Simulated tasks
have the real pids and names, opens the real paths, flags, modes and results, forks the real child.
docs/evidence/ways.md lists what can't be seen.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

from kprobe_sim.events.static.syscall_numbers import syscall_name
from kprobe_sim.expose.fuse.callers import caller, ignores, parent_of
from kprobe_sim.expose.run import ptrace
from kprobe_sim.expose.run.call_effects import CallEffects, PendingCall
from kprobe_sim.expose.run.ptrace import Ptrace, QuietStops
from kprobe_sim.expose.run.seccomp import CALLS_I386, X86_64, CannotFollow
from kprobe_sim.machine.task import Task

if TYPE_CHECKING:
    from kprobe_sim.kernel.simulated import SimulatedKernel

_STOPS = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
_BIRTHS = (ptrace.EVENT_FORK, ptrace.EVENT_VFORK, ptrace.EVENT_CLONE)
_CLONE_VFORK, _CLONE_THREAD, _CLONE_UNTRACED = 0x4000, 0x10000, 0x800000


class _Tracee:
    """A traced thread."""

    __slots__ = ("birth", "group", "has_begun", "has_ended", "is_early", "pending", "pid")

    def __init__(self, pid: int, group: int, *, birth: PendingCall | None = None) -> None:
        self.pid = pid
        self.group = group
        self.birth = birth  # the fork that it returns from
        self.pending: PendingCall | None = None
        self.has_begun = birth is None
        self.is_early = False  # it waits until its parent returns from the fork
        self.has_ended = False

    def task(self) -> Task:
        return caller(self.pid, None if self.group == self.pid else self.group)


class Follower:
    """Turns what a child of this process and its descendants do into what a simulated kernel does.

    The child must not have made a followed call yet.  Raises CannotFollow.
    """

    def __init__(self, kernel: SimulatedKernel, pid: int) -> None:
        self._effects = CallEffects(kernel)
        self._ptrace = Ptrace()
        self._tracees: dict[int, _Tracee] = {}
        self._early: set[int] = set()  # new tasks that stopped before the fork reported them
        self._root = pid
        self._status: int | None = None
        self._refusal: OSError | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="follower", daemon=True)
        self._thread.start()
        self._started.wait()
        if self._refusal is not None:
            raise CannotFollow(ptrace.unusable(self._refusal))

    def wait(self) -> int:
        """Wait until the process ends; return its status.  Its descendants end with it."""
        self._thread.join()
        return os.waitpid(self._root, 0)[1] if self._status is None else self._status

    def _follow(self) -> None:
        """Trace until the process ends.  The kernel kills what is still traced when this thread ends."""
        try:
            self._ptrace.seize(self._root)
            self._tracees[self._root] = _Tracee(self._root, self._root)
        except OSError as error:
            self._refusal = error
            return
        finally:
            self._started.set()
        with QuietStops():
            while self._status is None:
                pid, status = ptrace.wait()
                if os.WIFSTOPPED(status):
                    self._stopped(pid, status >> 16, status >> 8 & 0xFF)
                else:
                    self._gone(pid, status)

    def _stopped(self, pid: int, event: int, number: int) -> None:
        tracee = self._tracees.get(pid)
        if tracee is None:
            self._early.add(pid)
            self._adopt()
        elif event == ptrace.EVENT_SECCOMP:
            self._enters(tracee)
        elif number == ptrace.SYSCALL_STOP:
            self._leaves(tracee)
        elif event in _BIRTHS:
            self._add_child(tracee, self._ptrace.message(pid))
            self._resume(tracee)
        elif event == ptrace.EVENT_EXEC:
            self._executes(tracee, self._ptrace.message(pid))
        elif event == ptrace.EVENT_EXIT:
            self._ends(tracee, self._ptrace.message(pid))
            self._resume(tracee)
        elif event == ptrace.EVENT_STOP and number in _STOPS:
            self._ptrace.listen(pid)
        elif event:
            self._let_go_on(tracee)
        else:
            # an untraced task would not be interrupted: the kernel drops signals that it ignores
            if self._ptrace.was_interrupted(pid) and ignores(pid, number):
                self._ptrace.wait_again(pid)
            self._resume(tracee, number)

    def _resume(self, tracee: _Tracee, number: int = 0) -> None:
        self._ptrace.resume(tracee.pid, number, to_exit=tracee.pending is not None)

    def _enters(self, tracee: _Tracee) -> None:
        call = self._ptrace.call(tracee.pid)
        if call is not None:
            native = call.arch == X86_64
            name = syscall_name(call.number) if native else CALLS_I386.get(call.number)
            if name is not None:
                tracee.pending = self._effects.enter(tracee.task(), name, call.arguments, native=native)
            if name == "clone" and call.arguments[0] & _CLONE_UNTRACED:  # else the filter would make its calls fail
                self._ptrace.set_argument(tracee.pid, call.arguments[0] & ~_CLONE_UNTRACED, native=native)
        self._resume(tracee)

    def _leaves(self, tracee: _Tracee) -> None:
        result = self._ptrace.result(tracee.pid)
        if result is not None and tracee.pending is not None:
            pending, tracee.pending = tracee.pending, None
            self._effects.leave(pending, result)
            self._has_left(pending)
        self._resume(tracee)

    def _has_left(self, pending: PendingCall) -> None:
        """Let a child continue that has waited for the return from a fork."""
        if pending.is_fork:
            child = self._tracees.get(pending.child)
            if child is not None and child.is_early:
                self._let_go_on(child)
            self._adopt()

    def _add_child(self, parent: _Tracee, pid: int) -> None:
        pending = parent.pending
        thread = pending is not None and bool(pending.flags & _CLONE_THREAD)
        child = self._tracees[pid] = _Tracee(pid, parent.group if thread else pid, birth=pending)
        if pending is not None:
            self._effects.child_created(pending, Task(pid, pending.task.comm, child.group if thread else None))
        if pid in self._early:
            self._early.discard(pid)
            self._let_go_on(child)
        self._adopt()

    def _let_go_on(self, tracee: _Tracee) -> None:
        """Let a task continue; a new task begins, but after a parent that doesn't wait for it."""
        if not tracee.has_begun:
            birth = tracee.birth
            parent = None if birth is None else self._tracees.get(birth.task.pid)
            if parent is not None and parent.pending is birth and birth is not None and not birth.flags & _CLONE_VFORK:
                tracee.is_early = True
                return
            tracee.has_begun, tracee.is_early = True, False
            if birth is not None:
                self._effects.begin(tracee.task(), birth.system)
            tracee.birth = None
        self._resume(tracee)

    def _adopt(self) -> None:
        """Let new tasks continue whose parents were killed before they could report them."""
        pending = (tracee.pending for tracee in self._tracees.values())
        if self._early and all(call.child for call in pending if call is not None and call.is_fork):
            for pid in self._early:
                self._tracees[pid] = _Tracee(pid, _group_of(pid))
                self._resume(self._tracees[pid])
            self._early.clear()

    def _executes(self, tracee: _Tracee, former: int) -> None:
        """Note a task's new program; a task that wasn't the first thread now has the first thread's pid."""
        if former != tracee.pid and former in self._tracees:
            tracee.pending = self._tracees.pop(former).pending
        tracee.has_ended = False
        self._effects.execute(tracee.pending, tracee.pid, former)
        self._resume(tracee)

    def _ends(self, tracee: _Tracee, code: int) -> None:
        pending, tracee.pending = tracee.pending, None
        if pending is not None:  # a fatal signal hit it in the call
            result = self._ptrace.last_result(tracee.pid)
            if result is not None and not tracee.has_ended:
                if pending.is_fork and not pending.child and result > 0 and _belongs(result, tracee.group):
                    tracee.pending = pending
                    self._add_child(tracee, result)
                    tracee.pending = None
                self._effects.leave(pending, result)
            self._has_left(pending)
        tracee.is_early = False
        self._end(tracee, code)

    def _end(self, tracee: _Tracee, code: int) -> None:
        if not tracee.has_ended:
            tracee.has_ended = True
            others = (other for other in self._tracees.values() if other.group == tracee.group)
            self._effects.end(tracee.task(), code, last=all(other.has_ended for other in others))

    def _gone(self, pid: int, status: int) -> None:
        self._early.discard(pid)
        tracee = self._tracees.pop(pid, None)
        if tracee is not None:
            pending, tracee.pending = tracee.pending, None
            if pending is not None:
                self._has_left(pending)
            self._end(tracee, status)
        if pid == self._root:
            self._status = status


def _group_of(pid: int) -> int:
    """Return the pid of a thread's process."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("Tgid:"))
    except (OSError, StopIteration):
        return pid


def _belongs(pid: int, group: int) -> bool:
    """Return whether a task is a child or a thread of a process."""
    return group in (parent_of(pid), _group_of(pid))
