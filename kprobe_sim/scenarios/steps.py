"""The steps of a scenario: the contents of one [[call]] in its file.

[[call]]
open = "/etc/hostname"            # openat(2): do_sys_openat2() is called; how = [flags, mode], dfd = -100, returns = -2
fadvise = [-2, "text", 5, 0]      # fadvise64(2): ksys_fadvise64_64(int, loff_t, size_t, int); for a text its address
function = "vfs_read"             # any function, or "name+0x10", with the keys of a call in an activity
event = "sched/sched_switch"      # a static event, with its `fields`
marker = "text"                   # written to trace_marker; a text, or { hex = "00ff" } for any bytes
raw_marker = { id = 1, hex = "00ff" }
write = "events/kprobes/ent/filter"  # a file of the instance, with `data`
read = true                       # trace_pipe is read until it is empty

and for each: task = "comm-pid", "comm-pid/tgid" or { comm = …, pid = …, tgid = … }, where comm may be a { hex };
cpu; at (seconds since boot) or after (seconds since the step before, 0.0001); times (at most 100 for a write);
known = false (its lines print <...>); flags and preempt_count of the records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kprobe_sim.language.primitives import toml_values as values
from kprobe_sim.machine.task import Task
from kprobe_sim.named_tuple import NamedTuple

ROOM = 1792  # bytes of text that a step may put into the task's memory
AT_FDCWD = -100
_AFTER = 0.0001  # seconds
_TIMES = 1_000_000
_WRITTEN = 100  # the most times of a write, which may take a hundred times as long as a call
_INT = 1 << 31
_IN_PROGRAM = (0x4013A9,)  # the address at which a task is in its program
_TASK = re.compile(r"(?P<comm>.*)-(?P<pid>[0-9]{1,9})(?:/(?P<tgid>[0-9]{1,9}))?\Z", re.DOTALL)
_ALWAYS = frozenset(["task", "cpu", "at", "after", "times", "known", "flags", "preempt_count", "duration"])
_KEYS = {
    "open": frozenset(["how", "dfd", "returns"]),
    "fadvise": frozenset(["returns"]),
    "function": frozenset(["args", "returns", "caller", "stack", "registers", "memory", "offset", "user_stack"]),
    "event": frozenset(["fields", "stack"]),
    "marker": frozenset[str](),
    "raw_marker": frozenset[str](),
    "write": frozenset(["data"]),
    "read": frozenset[str](),
}


class ScenarioStep(NamedTuple):
    """One action: `what` is its kind, `value` the value of that key, `more` the other keys of the kind.

    `start` is its time in ns since boot; None means `after` ns later than the step before.
    """

    what: str
    value: Any
    task: Task
    cpu: int
    start: int | None
    after: int
    times: int
    context: tuple[int, int] | None
    duration: int | None
    more: Mapping[str, Any]

    @staticmethod
    def placed(values: Sequence[int | bytes], memory: int) -> tuple[tuple[int, ...], bytes]:
        """Put texts one after another into memory; return the arguments with their addresses, and the memory."""
        data = b""
        arguments: list[int] = []
        for value in values:
            if isinstance(value, int):
                arguments.append(value)
            else:
                arguments.append(memory + len(data))
                data += value + b"\0"
        return tuple(arguments), data


def steps_of(entries: list[dict[str, Any]]) -> Iterator[ScenarioStep]:
    """Read the [[call]] tables of a scenario.  Raises ValueError, which says which table is wrong, and why."""
    for number, entry in enumerate(entries, 1):
        try:
            yield _step(entry)
        except (KeyError, ValueError) as error:
            reason = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
            raise ValueError(f"call {number}: {reason}") from None


def text_of(value: Any) -> bytes:
    """Return a text as bytes: a string, or { hex = … }.  Raises ValueError."""
    if isinstance(value, dict) and set(value) == {"hex"}:
        return values.octets(value["hex"], "hex")
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, bytes):
        return value
    raise ValueError(f"{values.shown(value)} is neither a text nor {{ hex = ... }}")


def argument_of(value: Any) -> int | bytes:
    """Return an argument: a number, or the bytes of a text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return values.number(value, "an argument")
    return text_of(value)


def _step(entry: Mapping[str, Any]) -> ScenarioStep:
    kinds = [key for key in _KEYS if key in entry]
    if len(kinds) != 1:
        raise ValueError(f"it has to be one of {', '.join(_KEYS)}" + (f", not {' and '.join(kinds)}" if kinds else ""))
    (what,) = kinds
    values.only(entry, _ALWAYS | _KEYS[what] | {what}, f" of {what}")
    more = {key: value for key, value in entry.items() if key in _KEYS[what]}
    value = _CHECKS[what](entry[what], more)
    context = None
    if "flags" in entry or "preempt_count" in entry:
        flags, depth = entry.get("flags", 0), entry.get("preempt_count", 0)
        context = values.number(flags, "flags", 0, 0xFF), values.number(depth, "preempt_count", 0, 0xFF)
    user_stack = tuple(_addresses(more.pop("user_stack", _IN_PROGRAM), "user_stack"))
    return ScenarioStep(
        what,
        value,
        task_of(entry.get("task", "workload-100"), values.truth(entry.get("known", True), "known"), user_stack),
        values.number(entry.get("cpu", 0), "cpu", 0, values.CPUS - 1),
        values.nanoseconds(entry["at"], "at") if "at" in entry else None,
        values.nanoseconds(entry.get("after", _AFTER), "after"),
        values.number(entry.get("times", 1), f"times of {what}", 1, _WRITTEN if what == "write" else _TIMES),
        context,
        values.nanoseconds(entry["duration"], "duration") if "duration" in entry else None,
        more,
    )


def task_of(value: Any, known: bool = True, user_stack: tuple[int, ...] = ()) -> Task:
    """Return the task that "COMM-PID", "COMM-PID/TGID" or a table describes.  Raises ValueError."""
    if isinstance(value, dict):
        if not {"comm", "pid"} <= set(value) <= {"comm", "pid", "tgid"}:
            raise ValueError("a task's table has comm and pid, and may have tgid")
        tgid = values.number(value["tgid"], "tgid", 0, values.PIDS - 1) if "tgid" in value else None
        pid = values.number(value["pid"], "pid")
        task = Task(pid, text_of(value["comm"]), tgid, known, user_stack)
    else:
        match = _TASK.match(value) if isinstance(value, str) else None
        if match is None:
            raise ValueError(f"task {values.shown(value)} isn't COMM-PID")
        comm = match["comm"].encode("utf-8", "surrogateescape")
        task = Task(int(match["pid"]), comm, int(match["tgid"]) if match["tgid"] else None, known, user_stack)
    if not (0 <= task.pid < values.PIDS and 0 <= (task.tgid or 0) < values.PIDS):
        raise ValueError(f"pid {task.pid}: pids go from 0 to {values.PIDS - 1}")
    return task


def _addresses(value: Any, what: str) -> list[int]:
    return [values.number(item, f"an address of {what}", 0) for item in values.items(value, what)]


def _int(value: Any, what: str) -> int:
    return values.number(value, what, -_INT, _INT - 1)


def _open(value: Any, more: dict[str, Any]) -> bytes:
    how = values.items(more.get("how", ()), "how")
    flags, mode = (*(_int(item, "a number of how") for item in how), 0, 0)[:2]
    more.update(
        how=(flags, mode), dfd=_int(more.get("dfd", AT_FDCWD), "dfd"), returns=_int(more.get("returns", -2), "returns")
    )
    return _fitting(text_of(value))


def _fadvise(value: Any, more: dict[str, Any]) -> tuple[int | bytes, ...]:
    arguments = [argument_of(item) for item in values.items(value, "fadvise")]
    if not 1 <= len(arguments) <= 4:
        raise ValueError("fadvise has one to four arguments")
    _fitting(b"\0".join(item for item in arguments if isinstance(item, bytes)))
    more["returns"] = _int(more.get("returns", -9), "returns")
    return (*arguments, *(0,) * (4 - len(arguments)))


def _fitting(text: bytes) -> bytes:
    if len(text) >= ROOM:
        raise ValueError(f"texts of {len(text)} bytes: a step has room for {ROOM - 1}")
    return text


def _function(value: Any, more: dict[str, Any]) -> str:
    returns = more.get("returns", 0)
    more.update(
        args=tuple(argument_of(item) for item in values.items(more.get("args", ()), "args")),
        returns=None if returns is False else values.number(returns, "returns"),
        caller=values.text(more["caller"], "caller") if more.get("caller") != "" and "caller" in more else "",
        stack=tuple(
            item if isinstance(item, str) else values.number(item, "an entry of stack", 0)
            for item in values.items(more.get("stack", ()), "stack")
        ),
        registers={
            name: values.number(number, f"register {name}")
            for name, number in values.table(more.get("registers", {}), "registers").items()
        },
        memory=dict(_memory(more)),
        offset=values.number(more.get("offset", 0), "offset", 0, _INT - 1),
    )
    return values.text(value, "function")


def _memory(more: Mapping[str, Any]) -> Iterator[tuple[int, bytes]]:
    for where, value in values.table(more.get("memory", {}), "memory").items():
        data = values.octets(value, f"memory at {values.cut(where, 60)}")
        yield values.address(where, "a key of memory", len(data)), data


def _event(value: Any, more: dict[str, Any]) -> str:
    fields = {
        name: text_of(item) if isinstance(item, str | dict) else _field(item, name)
        for name, item in values.table(more.get("fields", {}), "fields").items()
    }
    more.update(fields=fields, stack=tuple(_addresses(more.get("stack", ()), "stack")))
    return values.text(value, "event")


def _field(value: Any, name: str) -> int | bytes | tuple[int, ...]:
    if isinstance(value, list | tuple):
        return tuple(values.number(item, f"an element of field {values.cut(name, 60)}") for item in value)
    return value if isinstance(value, bytes) else values.number(value, f"field {values.cut(name, 60)}")


def _raw_marker(value: Any, _: dict[str, Any]) -> bytes:
    given = values.table(value, "raw_marker")
    number = values.number(given["id"], "id", 0, 2 * _INT - 1)
    return number.to_bytes(4, "little") + values.octets(given.get("hex", ""), "hex")


def _write(value: Any, more: dict[str, Any]) -> str:
    data = more["data"]
    choice = values.items(data, "data") if isinstance(data, list | tuple) else [data]
    if not choice:
        raise ValueError("data is an empty list")
    more["data"] = tuple(text_of(item) for item in choice)  # the first that the kernel accepts is used
    return values.text(value, "write")


_CHECKS: Mapping[str, Any] = {
    "open": _open,
    "fadvise": _fadvise,
    "function": _function,
    "event": _event,
    "marker": lambda value, more: text_of(value),
    "raw_marker": _raw_marker,
    "write": _write,
    "read": lambda value, more: values.truth(value, "read"),
}
