"""An activity's file (docs/reference/activities.md) after its TOML is parsed: every key, value and range is checked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from kprobe_sim.events.static.syscall_numbers import syscall_number
from kprobe_sim.kernel.step import Step
from kprobe_sim.language.primitives import toml_values as values
from kprobe_sim.machine.task import Task
from kprobe_sim.probes.hits.call import REGISTERS

Declared = tuple[str, int | None, str]  # name, size (None means the build's), module

PAUSE = 0.05  # seconds between calls played live
_TASK = re.compile(r"(?P<comm>.*)-(?P<pid>[0-9]{1,9})(?:/(?P<tgid>[0-9]{1,9}))?\Z", re.DOTALL)
_EVENT = re.compile(r"\w+[/:]\w+\Z")
_KEYS = frozenset(["function", "call", "repeat"])
_FUNCTION_KEYS = frozenset(["name", "size", "module"])
_BOTH = frozenset(["task", "cpu", "known", "at", "after", "times"])
_EVENT_KEYS = _BOTH | {"event", "fields"}
_CALL_KEYS = _BOTH | {
    *("function", "args", "returns", "caller", "stack", "registers", "memory", "offset", "duration", "unwinding"),
    "system_call",
}
_TIMES = 1_000_000  # that calls are made, in all
_GREATEST = (1 << 31) - 1  # of a function's size, and of an offset in it
_ARGUMENTS = 64  # at most, of which six are in registers
_OF_SYSTEM_CALL = 6


def read(table: Mapping[str, Any], source: str = "") -> tuple[tuple[Declared, ...], tuple[Step, ...], bool]:
    """Return the functions, the steps, and whether they repeat; `source` is the text, for line numbers in errors.

    Raises ValueError, with a line for each wrong entry.
    """
    try:
        values.only(table, _KEYS)
    except ValueError as error:
        raise ValueError(f"no activity: {error}") from None
    functions, steps = values.tables(table, "function"), values.tables(table, "call")
    problems: list[str] = []
    found_functions: list[Declared] = []
    found_steps: list[Step] = []
    lines = values.lines_of(source, "function", len(functions))
    for number, entry in enumerate(functions, 1):
        try:
            found_functions.append(_function(entry, number))
        except ValueError as error:
            problems.append(f"{error}{values.at_line(number, lines)}")
    lines = values.lines_of(source, "call", len(steps))
    made = 0
    for number, entry in enumerate(steps, 1):
        position = f"call {number}"
        try:
            step, times = _step(entry, f"{position}{values.at_line(number, lines)}")
            made += times
            if made > _TIMES:
                raise ValueError(f"with it {made} calls are made, and {_TIMES} are the most")
            found_steps += [step] * times
        except ValueError as error:
            problems.append(f"{position}: {error}{values.at_line(number, lines)}")
    repeat = values.truth(table.get("repeat", False), "repeat")
    if problems:
        raise ValueError(values.several(problems))
    if not found_steps:
        raise ValueError("no calls")
    return tuple(found_functions), tuple(found_steps), repeat


def _function(entry: Mapping[str, Any], number: int) -> Declared:
    if not isinstance(entry.get("name"), str) or not entry["name"]:
        raise ValueError(f"function {number} has no name")
    try:
        values.only(entry, _FUNCTION_KEYS)
        size = values.number(entry["size"], "size", 1, _GREATEST) if "size" in entry else None
        module = values.text(entry["module"], "module") if "module" in entry else ""
    except ValueError as error:
        raise ValueError(f"function {number}: {error}") from None
    return entry["name"], size, module


def _step(entry: Mapping[str, Any], position: str) -> tuple[Step, int]:
    """Return a step, and how often it is done."""
    is_event = "event" in entry
    if is_event and "function" in entry:
        raise ValueError("it has a function and an event: it is one of them")
    values.only(entry, _EVENT_KEYS if is_event else _CALL_KEYS)
    for key in ("task", "event" if is_event else "function"):
        if key not in entry:
            raise ValueError(f"{key!r} is missing")
    name = values.text(entry["event" if is_event else "function"], "event" if is_event else "function")
    if is_event and not _EVENT.match(name):
        raise values.unfit("event", name, "SYSTEM/EVENT")
    options: dict[str, Any] = {
        "task": _task(entry["task"], values.truth(entry.get("known", True), "known")),
        "cpu": values.number(entry.get("cpu", 0), "cpu", 0, values.CPUS - 1),
    }
    options |= {"fields": dict(_fields(entry))} if is_event else _of_call(entry)
    for key in ("at", "duration", "unwinding"):
        if key in entry:
            options[key] = values.nanoseconds(entry[key], key)
    pause = values.nanoseconds(entry.get("after", PAUSE), "after") / 1_000_000_000
    step = Step(pause, name, MappingProxyType(options), is_event, _system_call(entry), position)
    return step, values.number(entry.get("times", 1), "times", 1, _TIMES)


def _task(value: Any, known: bool) -> Task:
    match = _TASK.match(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"task {values.shown(value)} isn't COMM-PID")
    pid = values.number(int(match["pid"]), "the task's pid", 0, values.PIDS - 1)
    tgid = values.number(int(match["tgid"]), "the task's tgid", 0, values.PIDS - 1) if match["tgid"] else None
    return Task(pid, match["comm"], tgid, known)


def _of_call(entry: Mapping[str, Any]) -> dict[str, Any]:
    returns = entry.get("returns", 0)
    if returns is not False:
        returns = values.number(returns, "returns")
    return {
        "args": _arguments(entry.get("args", []), "args", _ARGUMENTS),
        "returns": None if returns is False else returns,
        "caller": values.text(entry["caller"], "caller") if "caller" in entry else "",
        "stack": tuple(map(_return_address, values.items(entry.get("stack", []), "stack"))),
        "registers": dict(_registers(entry)),
        "memory": dict(_memory(entry)),
        "offset": values.number(entry.get("offset", 0), "offset", 0, _GREATEST),
    }


def _arguments(value: Any, what: str, most: int) -> tuple[int | str | bytes, ...]:
    arguments = tuple(_argument(item) for item in values.items(value, what))
    if len(arguments) > most:
        raise ValueError(f"{what} has {len(arguments)} arguments, and {most} are the most")
    return arguments


def _argument(value: Any) -> int | str | bytes:
    if isinstance(value, dict) and set(value) == {"hex"}:
        return values.octets(value["hex"], "hex")
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return values.number(value, "an argument")
    raise ValueError(f"argument {values.shown(value)} is neither a number, a string nor {{ hex = ... }}")


def _return_address(value: Any) -> str | int:
    if isinstance(value, str) and value:
        return value
    return values.number(value, "an entry of stack that is no SYMBOL+OFFSET", 0)


def _registers(entry: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for name, value in values.table(entry.get("registers", {}), "registers").items():
        if name not in REGISTERS:
            raise ValueError(f"no register {values.shown(name)}: the kernel's names are {', '.join(REGISTERS)}")
        yield name, values.number(value, f"register {name}")


def _memory(entry: Mapping[str, Any]) -> Iterator[tuple[int, bytes]]:
    for address, value in values.table(entry.get("memory", {}), "memory").items():
        data = values.octets(value, f"memory at {values.cut(address, 60)}")
        yield values.address(address, "a key of memory", len(data)), data


def _fields(entry: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in values.table(entry.get("fields", {}), "fields").items():
        if isinstance(value, list):
            yield name, tuple(values.number(item, f"an element of field {values.cut(name, 60)}") for item in value)
        elif isinstance(value, str):
            yield name, value
        else:
            yield name, values.number(value, f"field {values.cut(name, 60)}, if it is no text and no list,")


def _system_call(entry: Mapping[str, Any]) -> tuple[str, tuple[int | str | bytes, ...]]:
    if "system_call" not in entry:
        return "", ()
    within = values.table(entry["system_call"], "system_call")
    values.only(within, ("name", "args"), " of system_call")
    name = values.text(within.get("name", ""), "the name of system_call")
    if syscall_number(name) is None:
        raise ValueError(f"x86-64 has no system call {values.shown(name)}")
    return name, _arguments(within.get("args", []), "args of system_call", _OF_SYSTEM_CALL)
