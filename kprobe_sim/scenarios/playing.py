"""A scenario on a simulated kernel: the writes to its files, and the actions of its tasks."""

from __future__ import annotations

import copy
import errno
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from kprobe_sim.builds.profile import CALLED
from kprobe_sim.events.dyn_event import DynEvent
from kprobe_sim.events.instance import Instance
from kprobe_sim.kernel.simulated import SimulatedKernel
from kprobe_sim.kernel.workload import MEMORY
from kprobe_sim.language.primitives import toml_values as values
from kprobe_sim.machine.clock import VirtualClock
from kprobe_sim.probes.hits.call import Call
from kprobe_sim.probes.probe_event import Probe
from kprobe_sim.records.ring import RingEntry
from kprobe_sim.scenarios.scenario import Scenario
from kprobe_sim.scenarios.steps import ScenarioStep
from kprobe_sim.tree.marks import mark, mark_raw

_MEMORY_SIZE = 0x4000  # of the task's private memory (actor.c of kprobe_vm)
_KERNEL_STACK = 0xFFFFC90000123E80
_ULONG_MAX = 2**64 - 1
_INT_MAX = 2**32 - 1
_LARGEFILE = 0x8000  # force_o_largefile() of a 64-bit task


class Playing:
    """A scenario that is played once."""

    def __init__(self, scenario: Scenario, kernel: SimulatedKernel) -> None:
        self._scenario = scenario
        self._kernel = kernel
        self._prefix = scenario.prefix
        self._called = kernel.profile.called
        self._with_events = any(name.partition("/")[0].endswith("syscalls") for name in scenario.enable)
        self._pipe: Any = None
        self.instance: Instance = kernel.top
        self.text = b""  # the text that was read
        self.entries: list[RingEntry] = []  # the entries that the text shows
        self.probes: list[Probe] = []  # all probes that were ever defined
        kernel.probes.listen(self._came)

    def prepare(self, options: tuple[str, ...], clock: str) -> None:
        """Define the probes, and set filters, options and clock.  Raises ValueError if the kernel refuses something."""
        scenario, prefix = self._scenario, self._prefix
        for name, size, module in scenario.functions:
            self._kernel.add_function(name, size, module)
        if scenario.instance:
            self._kernel.tracefs.mkdir(f"instances/{scenario.instance}")
            self.instance = next(each for each in self._kernel.instances if each.name == scenario.instance)
        for choice in scenario.definitions:
            write_first(self._write, [(definitions_file(line), line.encode()) for line in choice])
        for event, text in scenario.filters.items():
            self._write(f"{prefix}events/{event}/filter", text.encode())
        self._write(f"{prefix}trace_clock", clock.encode())
        for option in (*scenario.options, *options):
            self._write(f"{prefix}trace_options", option.encode())
        if scenario.saved_cmdlines:
            self._write("saved_cmdlines_size", b"%d" % scenario.saved_cmdlines)
        for event in self.enabled():
            self._write(f"{prefix}events/{event}/enable", b"1")
        if scenario.buffer_kb:
            self._write(f"{prefix}buffer_size_kb", b"%d" % scenario.buffer_kb)
        self.instance.clear()

    def _came(self, entry: DynEvent, is_new: bool) -> None:
        if is_new and isinstance(entry, Probe):
            self.probes.append(entry)

    def enabled(self) -> list[str]:
        """Return the events that are enabled, as GROUP/NAME."""
        if self._scenario.enable:
            return list(self._scenario.enable)
        return [line.split(" ")[0].partition(":")[2] for line in self.definitions()]

    def definitions(self) -> list[str]:
        """Return the lines of dynamic_events, or of kprobe_events on a kernel without it."""
        tracefs = self._kernel.tracefs
        name = "dynamic_events" if tracefs.exists("dynamic_events") else "kprobe_events"
        return tracefs.read(name).decode("latin-1").splitlines()

    def play(self) -> None:
        """Take all steps, and read the trace that they left."""
        for step in self._scenario.steps:
            for _ in range(step.times):
                self._take(step)
        if self._scenario.reads_pipe:
            self._read_pipe()
        else:
            self.entries = list(self.instance.buffer.pending())
            self.text = self._kernel.tracefs.read(f"{self._prefix}trace")

    def _take(self, step: ScenarioStep) -> None:
        kernel, clock = self._kernel, self._kernel.clock
        assert isinstance(clock, VirtualClock)
        clock.now = clock.now + step.after if step.start is None else step.start
        match step.what:
            case "open":
                self._open(step)
            case "fadvise":
                self._fadvise(step)
            case "function":
                self._function(step)
            case "event":
                flags, depth = step.context or (None, None)
                kernel.emit(step.value, task=step.task, cpu=step.cpu, flags=flags, preempt_count=depth, **step.more)
            case "marker" | "raw_marker":
                self._mark(step)
            case "write":
                write_first(self._write, [(f"{self._prefix}{step.value}", data) for data in step.more["data"]])
            case "read":
                self._read_pipe()

    def _mark(self, step: ScenarioStep) -> None:
        """Write a mark like a program: until all of it is written."""
        write, data = (mark if step.what == "marker" else mark_raw), step.value
        with self._kernel.condition:
            while True:
                data = data[write(self.instance, data, step.task, step.cpu) :]
                if not data:
                    return

    def _function(self, step: ScenarioStep) -> None:
        more = dict(step.more)
        args, memory = _in_memory(more.pop("args"))
        more["memory"] = {**memory, **more["memory"]}
        if not more["caller"] and not more["stack"]:
            more["stack"] = self._chain(step.value.partition("+")[0])
        self._kernel.perform(
            Call(step.value, step.task, args, cpu=step.cpu, duration=step.duration, context=step.context, **more)
        )

    def _chain(self, function: str) -> tuple[str, ...]:
        """Return the call chain recorded for a function; for others, the chain above a system call."""
        chains = self._kernel.profile.chains
        purpose = {name: purpose for purpose, name in self._called.items()}.get(function, "")
        call = {"open": "openat"}.get(purpose, purpose)
        return tuple(chains.get(call, ())) if call else tuple(chains.get("openat", ())[1:])

    def _open(self, step: ScenarioStep) -> None:
        (flags, mode), dfd, result = step.more["how"], step.more["dfd"], step.more["returns"]
        memory = {MEMORY: (step.value + b"\0").ljust(_MEMORY_SIZE, b"\0")}
        function, kernel_memory = self._called["open"], {}
        args: tuple[int, ...] = (dfd & _INT_MAX, MEMORY)
        if function == CALLED["open"][0]:
            how = struct.pack("<QQQ", flags | _LARGEFILE, mode & 0o7777 if flags & os.O_CREAT else 0, 0)
            args, kernel_memory = (*args, _KERNEL_STACK), {_KERNEL_STACK: how}
        else:
            args = (*args, flags | _LARGEFILE, mode & 0xFFFF)
        with self._system_call(step, "openat", (dfd, MEMORY, flags, mode), result, memory):
            self._enter(step, function, args, result, memory | kernel_memory, {"di": dfd})
        if result >= 0:
            with self._system_call(step, "close", (result,), 0, {}):
                pass

    def _fadvise(self, step: ScenarioStep) -> None:
        given, memory = _in_memory(step.value)
        fd, offset, length, advice = (int(value) for value in given)
        args = (fd & _INT_MAX, offset & _ULONG_MAX, length & _ULONG_MAX, advice & _INT_MAX)
        result = step.more["returns"]
        with self._system_call(step, "fadvise64", (fd, offset, length, advice), result, memory):
            # before 4.18 the system call itself, which returns a long; since then an int, so the upper half of %ax is 0
            function = self._called["fadvise"]
            result &= _INT_MAX if function == CALLED["fadvise"][0] else _ULONG_MAX
            self._enter(step, function, args, result, memory, {"di": fd, "cx": advice})

    def _enter(
        self,
        step: ScenarioStep,
        function: str,
        args: tuple[int, ...],
        result: int,
        memory: dict[int, bytes],
        registers: dict[str, int],
    ) -> None:
        """Call a system call's function with the recorded chain; `registers` are as the task set them, in full."""
        is_complete = self._kernel.profile.chains.get("registers_whole")
        exact = {name: value & _ULONG_MAX for name, value in registers.items()} if is_complete else {}
        self._kernel.perform(
            Call(
                function,
                step.task,
                args,
                result,
                registers=exact,
                memory=memory,
                stack=self._chain(function),
                cpu=step.cpu,
                duration=step.duration,
                returned={},
                context=step.context,
            )
        )

    def _system_call(
        self, step: ScenarioStep, name: str, args: tuple[int, ...], result: int, memory: dict[int, bytes]
    ) -> AbstractContextManager[object]:
        if not self._with_events:
            return nullcontext()
        return self._kernel.system_call(name, task=step.task, args=args, returns=result, memory=memory, cpu=step.cpu)

    def _write(self, path: str, data: bytes) -> None:
        try:
            self._kernel.tracefs.write(path, data)
        except OSError as error:
            raise ValueError(self._refused(path, data, error)) from None

    def _refused(self, path: str, data: bytes, error: OSError) -> str:
        """Return a message about data that the kernel refused, in its words if it gave a reason."""
        tracefs = self._kernel.tracefs
        log = tracefs.read("error_log") if tracefs.exists("error_log") else b""  # 5.2 and later have it
        lines = log.decode("latin-1").split("\n")
        reason = next((line.partition("error: ")[2] for line in reversed(lines) if "error: " in line), "")
        shown = values.cut(repr(data.decode("utf-8", "surrogateescape")), 400)
        name = errno.errorcode.get(error.errno or 0, "")
        return f"{values.cut(path, 200)} refuses {shown}: {name} {reason or error.strerror}"

    def _read_pipe(self) -> None:
        """Read trace_pipe until nothing is left."""
        if self._pipe is None:
            self._pipe = self._kernel.tracefs.open(f"{self._prefix}trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
        self.entries += _consumed(self.instance)
        while True:
            try:
                piece = self._pipe.read(1 << 16)
            except BlockingIOError:
                return
            if not piece:
                return
            self.text += piece

    def close(self) -> None:
        """Close trace_pipe, if it was opened."""
        if self._pipe is not None:
            self._pipe.close()


def _consumed(instance: Instance) -> Iterator[RingEntry]:
    """Yield what a consuming reader will see; only a copy of the buffer is consumed."""
    buffer = copy.deepcopy(instance.buffer)
    while (entry := buffer.peek()) is not None:
        buffer.consume(entry)
        yield entry


def definitions_file(line: str) -> str:
    """Return the file that takes a definition."""
    point = line.split()[1] if len(line.split()) > 1 else ""
    return "kprobe_events" if line[:1] in "pr-" and not point.startswith("/") else "dynamic_events"


def _in_memory(args: tuple[int | bytes, ...]) -> tuple[tuple[int, ...], dict[int, bytes]]:
    """Put texts into the task's memory; return the arguments with their addresses."""
    placed, data = ScenarioStep.placed(args, MEMORY)
    return placed, {MEMORY: data.ljust(_MEMORY_SIZE, b"\0")} if data else {}


def write_first(write: Callable[[str, bytes], None], choice: Sequence[tuple[str, bytes]]) -> None:
    """Write the first choice that the kernel accepts (b"" among several: nothing), or raise the first refusal."""
    refusals = []
    for path, data in choice:
        try:
            return write(path, data) if data or len(choice) == 1 else None
        except ValueError as error:
            refusals.append(error)
    raise refusals[0]
