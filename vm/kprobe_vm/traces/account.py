"""Checks the truth from the raw pages against the account of what the tasks did."""

from __future__ import annotations

from collections.abc import Sequence

from kprobe_vm.errors import MachineError
from kprobe_vm.guest.workload import OPENAT
from kprobe_vm.traces.activity import BEGIN, Done, arguments
from kprobe_vm.traces.truth import Truth


class Disagreement(MachineError):
    """The raw pages of a guest contradict what its tasks did."""


def confirmed(truth: Sequence[Truth], done: Sequence[Done], *, complete: bool = True) -> int:
    """Return how many events the account confirms: task, CPU, function's arguments, result; raise `Disagreement`.

    With ``complete`` each call has its events; without, the first may have been overwritten.
    """
    waiting: dict[int, list[Done]] = {}
    for performed in done:
        waiting.setdefault(performed.pid, []).append(performed)
    count = 0
    seen: dict[tuple[int, str], int] = {}
    events = _as_done(truth, done)
    for event in events if complete else reversed(events):
        name = event.get("name")
        acts = waiting.get(event.get("pid", -1), [])
        acts = [performed for performed in acts if (performed.act.number == OPENAT) == (name in ("ent", "ret"))]
        if not acts or not (name in ("ent", "ret") or str(name).startswith("t_")):
            continue
        number = seen.get((event["pid"], str(name)), 0)
        seen[event["pid"], str(name)] = number + 1
        if number >= len(acts):
            raise Disagreement(f"{event}: it is more than the {len(acts)} calls of its task")
        _same(event, acts[number if complete else -1 - number])
        count += 1
    expected = sum(1 for performed in done if performed.act.number == OPENAT)
    entries = sum(number for (_, name), number in seen.items() if name == "ent")
    if complete and entries != expected:
        raise Disagreement(f"{expected} calls of openat left {entries} events")
    return count


def _as_done(truth: Sequence[Truth], done: Sequence[Done]) -> list[Truth]:
    """Return the events in the order in which their tasks made them.

    That is the text's order except for equal times, which a clock that counts jiffies gives: the kernel prints these by
    CPU, and a task began on any CPU before it went to its own.
    """
    cpus = {one.pid: one.task.cpu for one in done}
    events = [event for event in truth if event["type"] == "event"]
    return sorted(events, key=lambda event: (event["timestamp"], event["cpu"] == cpus.get(event.get("pid", -1))))


def _same(event: Truth, done: Done) -> None:
    """Check an event against its call; raise `Disagreement`."""
    comm = done.task.comm.decode("utf-8", "surrogateescape")
    short = done.task.comm[:8].decode("utf-8", "surrogateescape")  # as latency-format has it
    expected: Truth = {"task": short if event.get("task") == short else comm, "pid": done.pid}
    if done.act is not BEGIN:
        expected["cpu"] = done.task.cpu
    fields: Truth = {}
    if event["name"] == "ent":
        path = None if done.act.path is None else done.act.path.decode("utf-8", "surrogateescape")
        fields = {"dfd": done.act.arguments[0], "s": path}
        if path == "" and event["fields"]["s"] is None:
            fields["s"] = None  # 5.10 to 6.12 record no empty string, and print (fault)
    elif event["name"] == "ret":
        fields = {"ret": done.result} if done.result is not None else {}
    elif event["name"] in ("t_numbers", "t_hex", "t_two", "t_last"):
        known = arguments(done.act)
        fields = {name: known[name] for name in event["fields"] if name in known}
        for name in ("one", "two", "s"):
            if fields.get(name) == "" and event["fields"][name] is None:
                fields[name] = None
    wrong = {name: value for name, value in expected.items() if event.get(name, value) not in (value, "<...>")}
    wrong |= {name: value for name, value in fields.items() if event["fields"].get(name, value) != value}
    if wrong:
        raise Disagreement(f"{event}: the account of its task has {wrong}")
