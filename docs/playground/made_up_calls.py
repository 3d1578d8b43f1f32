"""A few calls that hit what a definition probes, so that the trace has something to show.

The tasks, the values of the arguments and what is returned are made up.  Strings and `struct filename` are in memory;
other pointers lead nowhere, and what a probe reads through them is a fault.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Sequence
from typing import Any

from kprobe_sim import SimulatedKernel, Task
from kprobe_sim.kernel.activity import load

_TASKS = (Task(2841, "cat"), Task(1172, "postgres"), Task(611, "cron"))
_PATHS = ("/etc/hostname", "pg_stat_tmp/pgstat.stat", "/etc/crontab")
_RESULTS = (3, 0, -2)
_POINTERS = 0xFFFF888003C0A000  # in the direct mapping, where the kernel's own objects lie
_NAMES, _TEXTS = 0xFFFF888005A00000, 0xFFFF888005B00000
_CALLER = "do_syscall_64+0x5c"
_HOW = {1: "how", 2: "flags, mode"}  # how a file is opened: a struct, or two numbers before 5.6
_LINE = re.compile(r"(?P<kind>[a-z])[0-9]*:\S+\s+(?P<target>\S+)")
_PLACE = re.compile(r"(?:[^:+]+:)?(?P<name>[A-Za-z_][\w.]*)(?:\+(?P<offset>0x[0-9a-fA-F]+|[0-9]+))?(?:%return)?\Z")
_FIELD = re.compile(r"field:(?P<type>[^;]*?)(?P<name>\w+);")


def make_calls(kernel: SimulatedKernel, listing: Sequence[str]) -> list[str]:
    """Make calls of all that the lines of dynamic_events probe; return what they were, and what can't be called."""
    found = [match for line in listing if (match := _LINE.match(line))]
    said: list[str] = []
    for kind, target in dict.fromkeys((_way(match["kind"]), match["target"]) for match in found):
        try:
            said += _WAYS[kind](kernel, target)
        except ValueError as error:
            reason, _, _ = str(error).partition(": ")
            said.append(f"No call of {target}: {reason}.")
        except Exception as error:  # what was answered before stays true
            said.append(f"No call of {target}: the simulator failed, {type(error).__name__}: {error}.")
    return said


def _way(kind: str) -> str:
    return kind if kind in "ets" else "p"


def _synthetic(kernel: SimulatedKernel, target: str) -> list[str]:
    return ["No call: a synthetic event fires when the action of a histogram says so."]


def _functions(kernel: SimulatedKernel, target: str) -> list[str]:
    if target.startswith("/"):
        return [f"No call of {target}: programs don't run here, so probes in them are never hit."]
    match = _PLACE.match(target)
    if match is None:
        return [f"No call of {target}: it is no name of a function."]
    name, offset = match["name"], int(match["offset"] or "0", 0)
    return _opens(kernel, offset) if name == kernel.profile.called["open"] else _called(kernel, name, offset)


def _opens(kernel: SimulatedKernel, offset: int) -> list[str]:
    """Make the calls of the simulator's own activity, a small server that opens files."""
    said = []
    for step in [step for step in load("opens").on(kernel) if not step.is_event]:
        kernel.call(step.name, **{**step.options, "offset": offset})
        task, (_, path, *how), returns = step.options["task"], step.options["args"], step.options["returns"]
        said.append(f'{_who(task)}: {step.name}(dfd=-100, filename="{path}", {_HOW[len(how)]}) = {returns}')
    return said


def _called(kernel: SimulatedKernel, name: str, offset: int) -> list[str]:
    prototype = kernel.profile.prototype(name)
    parameters = [(one.name, one.type.text) for one in prototype.parameters] if prototype else []
    if prototype is None or prototype.returns.kind == "ptr":
        results: Sequence[int] = (_POINTERS, _POINTERS + 0x1000, 0)
    elif prototype.returns.kind == "void":
        results = (0, 0, 0)
    else:
        results = _RESULTS if prototype.returns.signed else (3, 0, 1)
    said = []
    for number, task in enumerate(_TASKS):
        arguments = _Arguments(number, parameters)
        kernel.call(
            name,
            task=task,
            args=arguments.values,
            memory=arguments.memory,
            returns=results[number],
            caller=_CALLER,
            offset=offset,
        )
        shown = "" if prototype is not None and prototype.returns.kind == "void" else f" = {_number(results[number])}"
        said.append(f"{_who(task)}: {name}({', '.join(arguments.shown)}){shown}")
    return said


def _tracepoint(kernel: SimulatedKernel, target: str) -> list[str]:
    """Call what a tracepoint's probes hang on; kernels without such stubs can't fire one here."""
    return _called(kernel, f"__probestub_{target}", 0)


def _event(kernel: SimulatedKernel, target: str) -> list[str]:
    """Let a static event fire: by a system call if it is one's."""
    system, _, name = target.replace("/", ".").partition(".")
    call = re.fullmatch(r"sys_(?:enter|exit)_(\w+)", name)
    if system != "syscalls" or call is None:
        for task in _TASKS:
            kernel.emit(f"{system}/{name}", task=task)
        return [f"{_who(task)}: {system}/{name}, all its fields zero or empty" for task in _TASKS]
    text = kernel.tracefs.read(f"events/syscalls/sys_enter_{call[1]}/format").decode()
    found = [(match["name"], match["type"].strip()) for match in _FIELD.finditer(text)]
    fields = [(name, kind) for name, kind in found if not name.startswith(("common_", "__"))]
    said = []
    for number, task in enumerate(_TASKS):
        arguments = _Arguments(number, fields)
        with kernel.system_call(call[1], task=task, args=arguments.values, returns=_RESULTS[number]):
            pass
        said.append(f"{_who(task)}: {call[1]}({', '.join(arguments.shown)}) = {_RESULTS[number]}")
    return said


_WAYS: dict[str, Any] = {"p": _functions, "t": _tracepoint, "e": _event, "s": _synthetic}


class _Arguments:
    """The arguments of a call, by the types of its parameters: their values, as they are shown, and memory."""

    def __init__(self, number: int, parameters: Sequence[tuple[str, str]]) -> None:
        self.memory: dict[int, bytes] = {}
        self.values: list[int | str | bytes] = []
        self.shown: list[str] = []
        for place, (name, type_text) in enumerate(parameters):
            value, shown = self._value(number, place, name, type_text.removeprefix("const "))
            self.values.append(value)
            self.shown.append(f"{name}={shown}")

    def _value(self, number: int, place: int, name: str, type_text: str) -> tuple[int | str, str]:
        path = _PATHS[number]
        if type_text == "char *":
            return path, f'"{path}"'
        if type_text == "struct filename *":  # whose first member is the name
            at, text = _NAMES + 0x1000 * number, _TEXTS + 0x1000 * number
            self.memory |= {at: struct.pack("<Q", text), text: path.encode() + b"\0"}
            return at, f'{{name="{path}"}}'
        if type_text.endswith("*"):
            pointer = _POINTERS + 0x10000 * place + 0x100 * number
            return pointer, hex(pointer)
        if name in ("dfd", "olddfd", "newdfd"):
            return -100, "-100"
        value = {"pid": _TASKS[number].pid, "flags": 0, "mode": 0o644, "count": 4096, "len": 4096}.get(name, 3 + number)
        return value, str(value)


def _who(task: Task) -> str:
    return f"{os.fsdecode(task.comm)}-{task.pid}"


def _number(value: int) -> str:
    return str(value) if abs(value) < 1 << 32 else hex(value)
