"""The running task in the kernel's memory: its task_struct, and the per-CPU variables that lead to it.

The addresses are made up (a task_struct's from its pid, a CPU's area from its number); the contents are laid out as the
build's BTF says, and zero where nothing is known.  Source: a 7.3 guest's values of $current, this_cpu_read() and
`this_cpu_ptr(@runqueues)`.
"""

from __future__ import annotations

from functools import cached_property

from kprobe_sim.builds.page import KERNEL_STACK
from kprobe_sim.builds.prototypes import PrototypeTable
from kprobe_sim.language.fetch.btf_arguments import find_field
from kprobe_sim.language.primitives.refusal import Refusal
from kprobe_sim.machine.simulated import SimulatedMachine
from kprobe_sim.machine.state import NOWHERE, Current, task_address
from kprobe_sim.machine.task import Task
from kprobe_sim.named_tuple import NamedTuple

_AREAS = 0xFFFF_8880_0F00_0000  # the CPUs' copies of per-CPU variables
_ALIGNMENT = 0x2000
_RANDOMIZED = 0x400000  # PF_RANDOMIZE
_PRIORITY = 120  # of a task with the default niceness
_INIT = 1


class _Field(NamedTuple):
    offset: int
    size: int


class TaskMemory:
    """Puts tasks and per-CPU variables into the memory of a simulated kernel when a probe first needs them.

    `is_seen` is false if no probe of this kernel can read them, or get the address of a task by chance.
    """

    def __init__(self, machine: SimulatedMachine) -> None:
        gates = machine.gates
        self._machine = machine
        self._is_named = gates.current
        self.is_seen = gates.current or gates.failed_kernel_read == "task"
        self._fields: dict[tuple[str, str], _Field | None] = {}
        self._placed: dict[int, tuple[Task, int]] = {}  # by pid: as it was placed, and on which CPU
        self._areas: dict[int, bytearray] = {}
        self._running: dict[int, int] = {}  # CPU -> address of the task there
        self._last: tuple[Task | None, int, Current] = (None, 0, NOWHERE)  # the last question and its answer

    def current(self, task: Task, cpu: int) -> Current:
        """Return where a task's memory is while it runs on a CPU; it is empty if no probe can name it."""
        last_task, last_cpu, current = self._last
        if task is last_task and cpu == last_cpu:
            return current
        self._last = task, cpu, (current := self._find(task, cpu))
        return current

    def _find(self, task: Task, cpu: int) -> Current:
        address = task_address(task.pid)
        types = self._machine.profile.types if self._is_named else None
        if types is None:
            return Current(address, 0, 0)
        if self._placed.get(task.pid) != (task, cpu):
            self._placed[task.pid] = (task, cpu)
            self._lay_out(types, task, cpu)
        if self._running.get(cpu) != address:
            self._run(types, address, cpu)
        comm = self._field(types, "task_struct", "comm")
        return Current(address, address + (comm.offset if comm else 0), self._offset(cpu))

    def _field(self, types: PrototypeTable, struct: str, name: str) -> _Field | None:
        key = struct, name
        if key not in self._fields:
            number = types.struct(struct)
            try:
                found = None if number is None else find_field(types, number, name, 0)
            except Refusal:
                found = None
            self._fields[key] = _Field(found[0] // 8, types.size(found[1])) if found else None
        return self._fields[key]

    def _lay_out(self, types: PrototypeTable, task: Task, cpu: int) -> None:
        number = types.struct("task_struct")
        if number is None:
            return
        content = bytearray(types.size(number))
        leader = task.pid if task.tgid is None else task.tgid
        values = {
            "pid": task.pid,
            "tgid": leader,
            "group_leader": task_address(leader),
            "real_parent": task_address(_INIT),
            "parent": task_address(_INIT),
            "flags": _RANDOMIZED,
            "prio": _PRIORITY,
            "static_prio": _PRIORITY,
            "normal_prio": _PRIORITY,
            "on_cpu": 1,
            "thread_info.cpu": cpu,
            "stack": KERNEL_STACK,
        }
        for name, value in values.items():
            field = self._field(types, "task_struct", name)
            if field:
                content[field.offset : field.offset + field.size] = value.to_bytes(field.size, "little")
        comm = self._field(types, "task_struct", "comm")
        if comm:
            content[comm.offset : comm.offset + comm.size] = task.name.ljust(comm.size, b"\0")
        self._machine.memory.put(task_address(task.pid), bytes(content))
        for pid in (leader, _INIT):  # the tasks that it points to
            other = self._machine.tasks.get(pid) or self._boot_task(pid)
            if pid not in self._placed and other:
                self._placed[pid] = (other, cpu)
                self._lay_out(types, other, cpu)

    def _boot_task(self, pid: int) -> Task | None:
        return next((Task(pid, comm) for number, comm in self._machine.profile.tasks if number == pid), None)

    @cached_property
    def _bounds(self) -> tuple[int, int]:
        """Return where the per-CPU variables start and end."""
        symbols = self._machine.symbols
        first, last = symbols.lookup("__per_cpu_start"), symbols.lookup("__per_cpu_end")
        return (first[0].address, last[0].address) if first and last else (0, 0)

    def _offset(self, cpu: int) -> int:
        """Return what makes a per-CPU variable's address that of a CPU's copy."""
        start, end = self._bounds
        size = -(-(end - start) // _ALIGNMENT) * _ALIGNMENT
        return (_AREAS + cpu * size - start) & 0xFFFF_FFFF_FFFF_FFFF

    def _run(self, types: PrototypeTable, task: int, cpu: int) -> None:
        """Set a CPU's variables for the task that runs there."""
        start, end = self._bounds
        offset = self._offset(cpu)
        area = self._areas.get(cpu)
        if area is None:
            area = self._areas[cpu] = bytearray(end - start)
            self._machine.memory.put((start + offset) & 0xFFFF_FFFF_FFFF_FFFF, area)
            self._set(area, "this_cpu_off", offset, 8)
            self._set(area, "cpu_number", cpu, 4)
        self._set(area, "current_task", task, 8)
        current = self._field(types, "rq", "curr")
        if current:
            self._set(area, "runqueues", task, 8, current.offset)
        self._running[cpu] = task

    def _set(self, area: bytearray, name: str, value: int, size: int, offset: int = 0) -> None:
        for symbol in self._machine.symbols.lookup(name)[:1]:
            current = symbol.address - self._bounds[0] + offset
            if 0 <= current <= len(area) - size:
                area[current : current + size] = value.to_bytes(size, "little")
