"""The steps of a scenario: the contents of one [[call]] in its file.

[[call]]
open = "/etc/hostname"            # openat(2): do_sys_openat2() is called; how = [flags, mode], dfd = -100, returns = -2
fadvise = [-2, "text", 5, 0]      # fadvise64(2): ksys_fadvise64_64(int, loff_t, size_t, int); of a text its address
function = "vfs_read"             # any function, or "name+0x10", with the keys that a call of an activity has
event = "sched/sched_switch"      # a static event, with its `fields`
marker = "text"                   # written to trace_marker; `text` alone, or { hex = "00ff" } for any bytes
raw_marker = { id = 1, hex = "00ff" }
write = "events/kprobes/ent/filter"  # a file of the instance, with `data`
read = true                       # trace_pipe is read until it is empty

and of each of them: task = "comm-pid", "comm-pid/tgid" or { comm = …, pid = …, tgid = … }, where comm may be a { hex };
cpu; at (seconds since boot) or after (seconds since the step before, 0.0001); times; known = false (its lines print
<...>); flags and preempt_count of the records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kprobe_sim.machine.task import Task
from kprobe_sim.named_tuple import NamedTuple

ROOM = 1792  # bytes of text that a step may put into the task's memory
AT_FDCWD = -100
_AFTER = 0.0001  # seconds
_IN_PROGRAM = (0x4013A9,)  # where a task is in its program
_TASK = re.compile(r"(?P<comm>.*)-(?P<pid>[0-9]+)(?:/(?P<tgid>[0-9]+))?\Z", re.DOTALL)
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
    """One thing that is done: `what` says which kind, `value` is what stands there, `more` the kind's own keys.

    `at` is its time in ns since boot; None: `after` ns later than the step before.
    """

    what: str
    value: Any
    task: Task
    cpu: int
    at: int | None
    after: int
    times: int
    context: tuple[int, int] | None
    duration: int | None
    more: Mapping[str, Any]

    @staticmethod
    def placed(values: Sequence[int | bytes], memory: int) -> tuple[tuple[int, ...], bytes]:
        """Put texts one after the other into memory; return the arguments with their addresses, and what lies there."""
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
    """Read the [[call]] tables of a scenario.  Raises ValueError, which says which one is wrong, and how."""
    for number, entry in enumerate(entries, 1):
        try:
            yield _step(entry)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            reason = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
            raise ValueError(f"call {number}: {reason}") from None


def text_of(value: Any) -> bytes:
    """Return a text as bytes: a string, or { hex = … }.  Raises ValueError."""
    if isinstance(value, dict) and set(value) == {"hex"}:
        return bytes.fromhex(value["hex"])
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, bytes):
        return value
    raise ValueError(f"{value!r} is neither a text nor {{ hex = ... }}")


def argument_of(value: Any) -> int | bytes:
    """Return an argument: a number, or the bytes of a text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return text_of(value)


def _step(entry: Mapping[str, Any]) -> ScenarioStep:
    kinds = [key for key in _KEYS if key in entry]
    if len(kinds) != 1:
        raise ValueError(f"it has to be one of {', '.join(_KEYS)}" + (f", not {' and '.join(kinds)}" if kinds else ""))
    (what,) = kinds
    unknown = sorted(set(entry) - _ALWAYS - _KEYS[what] - {what})
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r} of {what}")
    more = {key: value for key, value in entry.items() if key in _KEYS[what]}
    value = _CHECKS[what](entry[what], more)
    context = None
    if "flags" in entry or "preempt_count" in entry:
        context = int(entry.get("flags", 0)), int(entry.get("preempt_count", 0))
    return ScenarioStep(
        what,
        value,
        task_of(
            entry.get("task", "workload-100"),
            bool(entry.get("known", True)),
            tuple(more.pop("user_stack", _IN_PROGRAM)),
        ),
        int(entry.get("cpu", 0)),
        _ns(entry["at"]) if "at" in entry else None,
        _ns(entry.get("after", _AFTER)),
        int(entry.get("times", 1)),
        context,
        _ns(entry["duration"]) if "duration" in entry else None,
        more,
    )


def task_of(value: Any, known: bool = True, user_stack: tuple[int, ...] = ()) -> Task:
    """Return the task that "COMM-PID", "COMM-PID/TGID" or a table says.  Raises ValueError."""
    if isinstance(value, dict):
        if not {"comm", "pid"} <= set(value) <= {"comm", "pid", "tgid"}:
            raise ValueError("a task's table has comm and pid, and may have tgid")
        tgid = None if value.get("tgid") is None else int(value["tgid"])
        task = Task(int(value["pid"]), text_of(value["comm"]), tgid, known, user_stack)
    else:
        match = _TASK.match(value)
        if match is None:
            raise ValueError(f"task {value!r} isn't COMM-PID")
        comm = match["comm"].encode("utf-8", "surrogateescape")
        task = Task(int(match["pid"]), comm, int(match["tgid"]) if match["tgid"] else None, known, user_stack)
    if not 0 <= task.pid < 1 << 22:
        raise ValueError(f"pid {task.pid}: pids go from 0 to {(1 << 22) - 1}")
    return task


def _ns(seconds: Any) -> int:
    return round(float(seconds) * 1_000_000_000)


def _open(value: Any, more: dict[str, Any]) -> bytes:
    flags, mode = (*more.get("how", ()), 0, 0)[:2]
    more.update(how=(int(flags), int(mode)), dfd=int(more.get("dfd", AT_FDCWD)), returns=int(more.get("returns", -2)))
    return _fitting(text_of(value))


def _fadvise(value: Any, more: dict[str, Any]) -> tuple[int | bytes, ...]:
    arguments = [argument_of(one) for one in value]
    if not 1 <= len(arguments) <= 4:
        raise ValueError("fadvise has one to four arguments")
    _fitting(b"\0".join(one for one in arguments if isinstance(one, bytes)))
    more["returns"] = int(more.get("returns", -9))
    return (*arguments, *(0,) * (4 - len(arguments)))


def _fitting(text: bytes) -> bytes:
    if len(text) >= ROOM:
        raise ValueError(f"texts of {len(text)} bytes: a step has room for {ROOM - 1}")
    return text


def _function(value: Any, more: dict[str, Any]) -> str:
    returns = more.get("returns", 0)
    more.update(
        args=tuple(argument_of(one) for one in more.get("args", ())),
        returns=None if returns is False else int(returns),
        caller=str(more.get("caller", "")),
        stack=tuple(more.get("stack", ())),
        registers={name: int(number) for name, number in more.get("registers", {}).items()},
        memory={int(address, 0): bytes.fromhex(data) for address, data in more.get("memory", {}).items()},
        offset=int(more.get("offset", 0)),
    )
    return str(value)


def _event(value: Any, more: dict[str, Any]) -> str:
    fields = {
        name: text_of(one) if isinstance(one, str | dict) else one for name, one in more.get("fields", {}).items()
    }
    more.update(fields=fields, stack=tuple(more.get("stack", ())))
    return str(value)


def _raw_marker(value: Any, _: dict[str, Any]) -> bytes:
    return int(value["id"]).to_bytes(4, "little") + bytes.fromhex(value.get("hex", ""))


def _write(value: Any, more: dict[str, Any]) -> str:
    more["data"] = text_of(more["data"])
    return str(value)


_CHECKS: Mapping[str, Any] = {
    "open": _open,
    "fadvise": _fadvise,
    "function": _function,
    "event": _event,
    "marker": lambda value, more: text_of(value),
    "raw_marker": _raw_marker,
    "write": _write,
    "read": lambda value, more: bool(value),
}
