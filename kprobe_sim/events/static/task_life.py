"""The actions of tasks that static events report: forks, execs, exits, switches and system calls.

The events and their order are those of the kernel (kernel/fork.c, fs/exec.c, kernel/exit.c, kernel/entry; recorded in
fixtures/static).  Functions that the kernel calls on the way are up to `SimulatedKernel.call`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from kprobe_sim.events.instance import Instance
from kprobe_sim.events.static.emission import Context, Emission
from kprobe_sim.events.static.static_record import FieldValue
from kprobe_sim.events.static.syscall_numbers import syscall_number
from kprobe_sim.machine.task import Task
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.text.syscall_text import SIZES, STRING_SIZES

Fields = Mapping[str, FieldValue]

_PRIORITY = 120  # of a task that nobody has made nicer
_USER_START = 0x7F0000000000  # where the strings of a call are put, as in `SimulatedKernel.call`
_ARGUMENTS = 6
_SLAB = 0xFFFF888004000000
_MASK = 2**64 - 1


# The allocations when a task forks and when it runs another program, recorded from a guest, by build; a build that
# isn't here has no such events (kmem/kmalloc). Sizes that depend on the program are left out.
class Allocation(NamedTuple):
    """One kmalloc(): its caller, the bytes asked for and given, and the flags."""

    caller: str
    size: int
    given: int
    flags: int


_KERNEL, _ZERO = 0xCC0, 0x100  # GFP_KERNEL, __GFP_ZERO
_CREDENTIALS = Allocation("security_prepare_creds+0xc5", 16, 16, _KERNEL)
FORK = {
    "6.1.0-54-cloud-amd64": (_CREDENTIALS, Allocation("security_task_alloc+0xbf", 48, 64, _KERNEL | _ZERO)),
}
EXEC = {
    "6.1.0-54-cloud-amd64": (Allocation("alloc_bprm+0x32", 416, 512, _KERNEL | _ZERO), _CREDENTIALS),
}


class SystemCall:
    """A system call that a task is in.

    `args` are the registers that it came with, `memory` its user memory by address; `returns` may be set until it ends.
    """

    __slots__ = ("args", "cpu", "memory", "name", "number", "returns", "task")

    def __init__(self, name: str, number: int, task: Task, args: Sequence[int | str | bytes], cpu: int) -> None:
        self.name = name
        self.number = number
        self.task = task
        self.cpu = cpu
        self.returns: int | None = 0
        self.memory: dict[int, bytes] = {}
        registers = []
        address = _USER_START
        for value in args:
            if isinstance(value, int):
                registers.append(value & _MASK)
                continue
            text = (value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value) + b"\0"
            self.memory[address] = text
            registers.append(address)
            address += -(-len(text) // 8) * 8
        self.args = tuple(registers)


class TaskLife:
    """Emits the static events of a kernel that follow from what a task does."""

    def __init__(self, top: Instance, statics: Emission) -> None:
        self._top = top
        self._machine = top.machine
        self._statics = statics

    def _emit(self, system: str, name: str, task: Task, fields: Fields, cpu: int) -> None:
        """Emit an event, if the kernel has it; fields that its version of it lacks are left out."""
        statics = self._statics
        if name != "sched_switch" and not statics.is_enabled(system, name):
            return
        if statics.has(system, name):
            known = {field.name for field in statics.event(f"{system}/{name}").filter_fields()}
            fields = {key: value for key, value in fields.items() if key in known}
            statics.emit(f"{system}/{name}", task, fields, Context(cpu=cpu))

    def fork(self, parent: Task, child: Task, clone_flags: int, cpu: int) -> None:
        """task_newtask, sched_process_fork, sched_wakeup_new; before them what is allocated."""
        self._allocate(parent, FORK.get(self._machine.release, ()), cpu)
        new: Fields = {"pid": child.pid, "comm": child.name, "clone_flags": clone_flags, "oom_score_adj": 0}
        self._emit("task", "task_newtask", parent, new, cpu)
        both: Fields = {"parent_comm": parent.name, "parent_pid": parent.pid}
        self._emit(
            "sched", "sched_process_fork", parent, {**both, "child_comm": child.name, "child_pid": child.pid}, cpu
        )
        woken: Fields = {"comm": child.name, "pid": child.pid, "prio": _PRIORITY, "success": 1, "target_cpu": cpu}
        self._emit("sched", "sched_wakeup_new", parent, woken, cpu)

    def exec(self, task: Task, filename: str | bytes, comm: str | bytes, cpu: int, old_pid: int | None = None) -> Task:
        """sched_prepare_exec, task_rename, sched_process_exec; return the task with its new name.

        `old_pid` is that of the thread which called, where it took over its leader's.
        """
        self._allocate(task, EXEC.get(self._machine.release, ()), cpu)
        name = filename.encode("utf-8", "surrogateescape") if isinstance(filename, str) else filename
        new = task._replace(comm=comm or name.rpartition(b"/")[2])
        prepared: Fields = {
            "interp": name + b"\0",
            "filename": name + b"\0",
            "pid": task.pid,
            "comm": task.name + b"\0",
        }
        self._emit("sched", "sched_prepare_exec", task, prepared, cpu)
        self._rename(task, new.name, cpu)
        old_pid = task.pid if old_pid is None else old_pid
        executed: Fields = {"filename": name + b"\0", "pid": task.pid, "old_pid": old_pid}
        self._emit("sched", "sched_process_exec", new, executed, cpu)
        return new

    def rename(self, task: Task, comm: str | bytes, cpu: int = 0) -> Task:
        """task_rename; return the task with its new name."""
        new = task._replace(comm=comm)
        with self._machine.condition:
            self._rename(task, new.name, cpu)
        return new

    def _rename(self, task: Task, name: bytes, cpu: int) -> None:
        renamed: Fields = {"pid": task.pid, "oldcomm": task.name, "newcomm": name, "oom_score_adj": 0}
        self._emit("task", "task_rename", task, renamed, cpu)

    def _allocate(self, task: Task, allocations: Sequence[Allocation], cpu: int) -> None:
        if not self._statics.is_enabled("kmem", "kmalloc"):
            return
        for number, (caller, size, given, flags) in enumerate(allocations):
            name, _, offset = caller.partition("+")
            address = self._machine.symbols.lookup(name)[0].address + int(offset, 16)
            fields: Fields = {
                "call_site": address,
                "ptr": _SLAB + 0x1000 * number,
                "bytes_req": size,
                "bytes_alloc": given,
                "gfp_flags": flags,
                "node": -1,
                "accounted": 0,
            }
            self._emit("kmem", "kmalloc", task, fields, cpu)

    def wait(self, task: Task, pid: int, cpu: int = 0) -> None:
        """sched_process_wait: a task waits for a child."""
        with self._machine.condition:
            fields: Fields = {"comm": task.name, "pid": pid, "prio": _PRIORITY}
            self._emit("sched", "sched_process_wait", task, fields, cpu)

    def exit(self, task: Task, cpu: int, last: bool | None = None) -> None:
        """sched_process_exit; `last`: no other thread of its process is left (default: the task is the leader)."""
        if last is None:
            last = task.tgid in (None, task.pid)
        gone: Fields = {
            "comm": task.name,
            "pid": task.pid,
            "prio": _PRIORITY,
            "group_dead": int(last),
        }
        self._emit("sched", "sched_process_exit", task, gone, cpu)

    def wake_up(self, task: Task, waker: Task, cpu: int = 0) -> None:
        """sched_waking, sched_wakeup; the second fires where the task will run, here at once."""
        woken: Fields = {"comm": task.name, "pid": task.pid, "prio": _PRIORITY, "success": 1, "target_cpu": cpu}
        with self._machine.condition:
            self._emit("sched", "sched_waking", waker, woken, cpu)
            self._emit("sched", "sched_wakeup", waker, woken, cpu)

    def switch(self, previous: Task, following: Task, state: int, cpu: int) -> None:
        """sched_switch."""
        fields: Fields = {
            "prev_comm": previous.name,
            "prev_pid": previous.pid,
            "prev_prio": _PRIORITY,
            "prev_state": state,
            "next_comm": following.name,
            "next_pid": following.pid,
            "next_prio": _PRIORITY,
        }
        self._emit("sched", "sched_switch", previous, fields, cpu)

    @contextmanager
    def system_call(
        self,
        name: str,
        task: Task,
        args: Sequence[int | str | bytes],
        returns: int | None,
        memory: Mapping[int, bytes],
        cpu: int,
    ) -> Iterator[SystemCall]:
        """raw_syscalls/sys_enter and syscalls/sys_enter_NAME, then what happens within, then both exits."""
        call = self.enter(name, task, args, memory, cpu)
        call.returns = returns
        yield call
        if call.returns is not None:
            self.leave(call, call.task, call.returns)

    def enter(
        self, name: str, task: Task, args: Sequence[int | str | bytes], memory: Mapping[int, bytes], cpu: int = 0
    ) -> SystemCall:
        """Let a task enter a system call, in which it stays until it leaves."""
        number = syscall_number(name)
        if number is None:
            raise ValueError(f"x86-64 has no system call {name!r}")
        call = SystemCall(name, number, task, args, cpu)
        call.memory.update(memory)
        with self._machine.condition:
            if self._shows("enter", name):
                arguments = [*call.args, *([0] * _ARGUMENTS)][:_ARGUMENTS]
                self._emit_both("enter", call, task, {"id": number, "args": arguments}, self._entry(call))
        return call

    def leaves(self, name: str) -> bool:
        """Return True if an enabled event shows that a task leaves that system call."""
        return self._shows("exit", name)

    def _shows(self, which: str, name: str) -> bool:
        is_enabled = self._statics.is_enabled
        return is_enabled("raw_syscalls", f"sys_{which}") or is_enabled("syscalls", f"sys_{which}_{name}")

    def leave(self, call: SystemCall, task: Task, result: int) -> None:
        """Let a task return from a system call: the task that made it, or a child whose first act is the return."""
        with self._machine.condition:
            if self._shows("exit", call.name):
                specific = {**self._number(f"sys_exit_{call.name}", call.number), "ret": result}
                self._emit_both("exit", call, task, {"id": call.number, "ret": result}, specific)

    def _emit_both(self, which: str, call: SystemCall, task: Task, raw: Fields, specific: Fields) -> None:
        """Emit both events, which share one tracepoint: the one that was enabled first comes first."""
        names = [("raw_syscalls", f"sys_{which}", raw), ("syscalls", f"sys_{which}_{call.name}", specific)]
        if self._top.enabled_before("syscalls", f"sys_{which}_", "raw_syscalls", f"sys_{which}"):
            names.reverse()
        self._machine.user_memory = call.memory
        for system, name, fields in names:
            self._emit(system, name, task, fields, call.cpu)
        self._machine.user_memory = {}

    def _number(self, name: str, number: int) -> dict[str, FieldValue]:
        """Return the number of a system call as the first field of its event: __syscall_nr, or nr on older kernels."""
        statics = self._statics
        return (
            {statics.event(f"syscalls/{name}").filter_fields()[0].name: number} if statics.has("syscalls", name) else {}
        )

    def _entry(self, call: SystemCall) -> dict[str, FieldValue]:
        statics = self._statics
        fields = self._number(f"sys_enter_{call.name}", call.number)
        if not statics.has("syscalls", f"sys_enter_{call.name}"):
            return fields
        arguments: dict[str, int] = {}
        values = [*call.args, *([0] * _ARGUMENTS)]
        for field in statics.event(f"syscalls/sys_enter_{call.name}").filter_fields()[1:]:
            if field.type.startswith("__data_loc"):
                name, room = field.name[2 : -len("_val")], self._machine.profile.syscall_user_buf_size
                fields[field.name] = user_value(call.name, arguments, name, call.memory, room)
            else:
                fields[field.name] = arguments[field.name] = values[len(arguments)]
        return fields


# User memory in the event of a system call, since 6.19: sys_fault_user() in trace_syscalls.c.
_READ_MAX = 169  # SYSCALL_FAULT_ARG_SZ - 1
_SHOWN_MAX = 165  # SYSCALL_FAULT_USER_MAX
_MORE = b"...\0"


def user_value(
    name: str, arguments: Mapping[str, int], field: str, memory: Mapping[int, bytes], buffer_size: int
) -> bytes:
    """Return the bytes that an argument of system call `name` points to, as its event holds them; b"" for a fault.

    `buffer_size` is syscall_user_buf_size: the bytes of each argument.
    """
    data = _stretch(memory, arguments.get(field, 0))
    if name in SIZES or name in STRING_SIZES:
        position = SIZES.get(name, STRING_SIZES.get(name, 0))
        size = min(list(arguments.values())[position], _READ_MAX)
        return data[: min(size, buffer_size)] if len(data) >= size else b""
    text, ended, _ = data.partition(b"\0")
    if not data or (not ended and len(text) < _READ_MAX):
        return b""
    length = min(len(text), _READ_MAX)
    shown = bytes(byte if 32 <= byte < 127 else ord(".") for byte in text[:length])
    limit = min(buffer_size, _SHOWN_MAX)
    return shown[:limit] + _MORE if length > limit else shown + b"\0"


def _stretch(memory: Mapping[int, bytes], address: int) -> bytes:
    for start, block in memory.items():
        if start <= address < start + len(block):
            return block[address - start :]
    return b""
