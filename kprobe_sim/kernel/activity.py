"""Activities: the calls that a simulated machine makes, as a TOML file.

repeat = true                     # start again at the end, when played live
[[function]]                      # a function that the recorded kernel hasn't, or has with another size
name = "do_sys_open"
size = 0x220                      # in bytes; absent: as recorded, or 256
[[call]]
function = "do_sys_open"          # or "name+0x10"
task = "supervise-1689"           # comm-pid; pid/tgid for a thread: "worker-1690/1689"
args = [0xffffff9c, "/etc/hosts", { hex = "0080" }]
returns = 9                       # absent: 0; false: doesn't return
caller = "SyS_open+0x1e/0x20"     # the size makes the symbol, if there is none; or "__x64_sys_openat": where the build
                                  # that is simulated was seen to call from there (__do_sys_fork, __x64_sys_fadvise64)
stack = ["do_syscall_64+0x5d"]    # return addresses after the caller's
registers = { ax = 0xffff880064acc8d0 }  # at the entry and, but for ax, ip and sp, at the return
cpu = 1
known = false                     # the task's lines print <...>
at = 6593279.228756               # seconds since boot, or
after = 0.25                      # seconds after the call before (live default 0.05)
times = 3                         # do it that often
system_call = { name = "openat", args = [0xffffff9c, "/etc/hosts"] }  # within it, so that its events fire, too
[[call]]
event = "sched/sched_switch"      # a static event in place of a function
task = "supervise-1689"
fields = { prev_comm = "supervise", prev_pid = 1689, prev_prio = 120, next_comm = "swapper/0", next_prio = 120 }
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kprobe_sim.kernel.opens import before_openat2, opens
from kprobe_sim.kernel.simulated import SimulatedKernel
from kprobe_sim.machine.task import Task
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.static_events.syscall_numbers import syscall_number

_BUILT_IN = Path(__file__).parents[1] / "activities"
_OPENS = "opens"
_TASK = re.compile(r"(?P<comm>.*)-(?P<pid>[0-9]+)(?:/(?P<tgid>[0-9]+))?\Z", re.DOTALL)
_CALL_KEYS = frozenset(
    [
        "function",
        "task",
        "args",
        "returns",
        "caller",
        "stack",
        "registers",
        "memory",
        "cpu",
        "known",
        "at",
        "after",
        "times",
        "offset",
        "duration",
        "unwinding",
        "system_call",
    ]
)
_EVENT_KEYS = frozenset(["event", "task", "fields", "cpu", "known", "at", "after", "times"])
_PAUSE = 0.05  # seconds between calls played live


class Step(NamedTuple):
    """One call of an activity: the pause before it in seconds, and the arguments of `SimulatedKernel.call`.

    `is_event`: it is a static event, and the arguments are those of `SimulatedKernel.emit`.  `system_call`: the name of
    the one within which it is made, and its arguments; "" for none.
    """

    after: float
    name: str
    options: Mapping[str, Any]
    is_event: bool = False
    system_call: tuple[str, tuple[int | str | bytes, ...]] = ("", ())

    @property
    def events(self) -> tuple[str, ...]:
        """The static events that it fires."""
        if self.is_event:
            return (self.name,)
        name = self.system_call[0]
        ways = (("enter", True), ("exit", self.options["returns"] is not None)) if name else ()
        own = [(f"raw_syscalls/sys_{way}", f"syscalls/sys_{way}_{name}") for way, is_gone in ways if is_gone]
        return tuple(event for both in own for event in both)

    def take(self, kernel: SimulatedKernel, options: Mapping[str, Any]) -> None:
        """Do it."""
        if self.is_event:
            if self._is_wanted(kernel):
                kernel.emit(self.name, **options)
        elif self.system_call[0] and self._is_wanted(kernel):
            name, args = self.system_call
            task, returns, cpu = (options[key] for key in ("task", "returns", "cpu"))
            with kernel.system_call(name, task=task, args=args, returns=returns, cpu=cpu):
                kernel.call(self.name, **options)
        else:
            kernel.call(self.name, **options)

    def _is_wanted(self, kernel: SimulatedKernel) -> bool:
        """False if no instance wants its static events: what emits them takes longer to import than to do all else."""
        found = [kernel.events.static.find(*event.split("/", 1)) for event in self.events]
        return any(self.is_event if event is None else kernel.instances.enabled(event) for event in found)


class Activity(NamedTuple):
    """A sequence of calls, and the functions that they need."""

    functions: tuple[tuple[str, int | None, str], ...]  # name, size (None: the build's), module
    steps: tuple[Step, ...]
    repeat: bool

    def prepare(self, kernel: SimulatedKernel) -> None:
        """Let the functions be as they are said to be, and the tasks exist."""
        for name, size, module in self.functions:
            kernel.add_function(name, size, module)
        for step in self.steps:
            task = step.options["task"]
            kernel.tasks.setdefault(task.pid, task)

    def on(self, kernel: SimulatedKernel) -> Sequence[Step]:
        """Return the steps as the kernel has their functions: before 5.6 files are opened by do_sys_open()."""
        lookup = kernel.machine.symbols.lookup
        if lookup("do_sys_openat2") or not lookup("do_sys_open"):
            return self.steps
        chains = kernel.profile.chains
        caller = (*chains.get("do_sys_open", ()), *chains.get("openat", ()), "")[0]
        found: list[Step] = []
        pause = 0.0
        for step in self.steps:
            if step.name == "sched/sched_switch" and not kernel.statics.has("sched", "sched_switch"):
                pause += step.after  # the patch of 2009 is known by its document, which has no static events
                continue
            if step.name == "do_sys_openat2":
                step = step._replace(name="do_sys_open", options=before_openat2(step.options, caller))
            found.append(step._replace(after=step.after + pause))
            pause = 0.0
        return found

    def play(self, kernel: SimulatedKernel) -> None:
        """Make all calls at once, at the times that the file says."""
        self.prepare(kernel)
        for step in self.on(kernel):
            step.take(kernel, step.options)

    def play_live(self, kernel: SimulatedKernel, stop: threading.Event) -> None:
        """Make the calls in real time, now instead of at their times, until the end or until `stop` is set."""
        steps = self.on(kernel)
        while not stop.is_set():
            for step in steps:
                if stop.wait(step.after):
                    return
                step.take(kernel, {key: value for key, value in step.options.items() if key != "at"})
            if not self.repeat:
                return


def load(name: str) -> Activity:
    """Read one of the built-in activities by its name, or the activity in a file, which has a `/` or ends with .toml.

    Raises ValueError, which says what there is or what is wrong with the file.
    """
    if "/" not in name and not name.endswith(".toml"):
        built_in = _built_in(name)
        if built_in is None:
            hint = f" (for the file of that name write ./{name})" if name and Path(name).is_file() else ""
            raise ValueError(f"no activity {name!r}: give a TOML file, or one of {', '.join(built_in_names())}{hint}")
        return built_in
    try:
        return parse(Path(name).read_text("utf-8"), name)
    except OSError as error:
        raise ValueError(f"activity {name}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{name}: not TOML: it isn't text in UTF-8") from None


@lru_cache(maxsize=16)
def _built_in(name: str) -> Activity | None:
    """Return an activity that comes with the simulator: they never change, and each is read once."""
    if name == _OPENS:
        return _read(opens(), name)
    return parse((_BUILT_IN / f"{name}.toml").read_text("utf-8"), name) if name in built_in_names() else None


def built_in_names() -> list[str]:
    """Return the names of the activities that come with the simulator."""
    return sorted([_OPENS, *(path.stem for path in _BUILT_IN.glob("*.toml"))])


def parse(text: str, name: str = "activity") -> Activity:
    """Read an activity from its TOML text; `name` is for the errors.  Raises ValueError."""
    import tomllib  # few machines have an activity of their own

    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{name}: not TOML: {error}") from None
    return _read(table, name)


def _read(table: Mapping[str, Any], name: str) -> Activity:
    unknown = sorted(set(table) - {"function", "call", "repeat"})
    if unknown:
        raise ValueError(f"{name}: no activity: unknown key {unknown[0]!r}")
    functions = []
    for number, entry in enumerate(_tables(table, "function", name), 1):
        if not isinstance(entry.get("name"), str):
            raise ValueError(f"{name}: function {number} has no name")
        try:
            size = int(entry["size"]) if "size" in entry else None
        except (TypeError, ValueError):
            raise ValueError(f"{name}: function {number}: its size is no number: {entry['size']!r}") from None
        functions.append((entry["name"], size, str(entry.get("module", ""))))
    steps: list[Step] = []
    for number, entry in enumerate(_tables(table, "call", name), 1):
        try:
            steps += _steps(entry)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            reason = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
            raise ValueError(f"{name}: call {number}: {reason}") from None
    if not steps:
        raise ValueError(f"{name}: no calls")
    return Activity(tuple(functions), tuple(steps), bool(table.get("repeat", False)))


def _tables(table: Mapping[str, Any], key: str, name: str) -> list[dict[str, Any]]:
    found = table.get(key, [])
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise ValueError(f"{name}: {key} isn't a table: write [[{key}]]")
    return found


def _steps(entry: Mapping[str, Any]) -> Iterator[Step]:
    is_event = "event" in entry
    unknown = sorted(set(entry) - (_EVENT_KEYS if is_event else _CALL_KEYS))
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}")
    match = _TASK.match(entry["task"])
    if match is None:
        raise ValueError(f"task {entry['task']!r} isn't COMM-PID")
    task = Task(
        int(match["pid"]), match["comm"], int(match["tgid"]) if match["tgid"] else None, bool(entry.get("known", True))
    )
    options: dict[str, Any] = {"task": task, "cpu": int(entry.get("cpu", 0))}
    if is_event:
        options["fields"] = dict(entry.get("fields", {}))
    else:
        options |= {
            "args": tuple(_argument(argument) for argument in entry.get("args", [])),
            "returns": None if entry.get("returns") is False else entry.get("returns", 0),
            "caller": entry.get("caller", ""),
            "stack": tuple(entry.get("stack", [])),
            "registers": {name: int(value) for name, value in entry.get("registers", {}).items()},
            "memory": {int(address, 0): bytes.fromhex(data) for address, data in entry.get("memory", {}).items()},
            "offset": int(entry.get("offset", 0)),
        }
    for key in ("at", "duration", "unwinding"):
        if key in entry:
            options[key] = round(float(entry[key]) * 1_000_000_000)
    within = entry.get("system_call", {"name": ""})
    system_call = str(within["name"]), tuple(_argument(argument) for argument in within.get("args", []))
    if system_call[0] and syscall_number(system_call[0]) is None:
        raise ValueError(f"x86-64 has no system call {system_call[0]!r}")
    for _ in range(int(entry.get("times", 1))):
        name = entry["event"] if is_event else entry["function"]
        yield Step(float(entry.get("after", _PAUSE)), name, MappingProxyType(options), is_event, system_call)


def _argument(value: Any) -> int | str | bytes:
    if isinstance(value, dict) and set(value) == {"hex"}:
        return bytes.fromhex(value["hex"])
    if isinstance(value, int | str):
        return value
    raise ValueError(f"argument {value!r} is neither a number, a string nor {{ hex = ... }}")
