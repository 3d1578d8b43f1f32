"""From raw records to what the tracer function_graph shows: calls by their entries and exits, and events as comments.

The rules are the kernel's (kernel/trace/trace_functions_graph.c of 6.1), held to the texts of guests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from kprobe_vm.traces.columns import Columns, context, flags
from kprobe_vm.traces.pages import Event, RawRecord
from kprobe_vm.traces.truth import Truth, truth_of

ENTRY, EXIT = "funcgraph_entry", "funcgraph_exit"
_COMM = 7  # bytes of a name that are shown
_DEPTHS = 50  # depth up to which nested calls are remembered
_WIDTH = 7  # of a duration, with its fraction


def graph_of(
    records: Sequence[RawRecord], known: Mapping[int, Event], guest: Columns, options: Collection[str]
) -> Iterator[Truth]:
    """Yield what the text says of records in order: a call whose exit is the CPU's next record is one line."""
    following = _following(records)
    inside: dict[tuple[int, int], int] = {}  # the function that was entered, by CPU and depth
    gone: set[int] = set()
    for number, record in enumerate(records):
        name = known[record.ident].name
        shown = _context(record, guest, options)
        if number in gone:
            continue
        if name not in (ENTRY, EXIT):
            (truth,) = truth_of([record], known, guest, [*options, "nocontext-info"])
            yield {**truth, **shown}
            continue
        values = _values(record, known)
        function, depth = guest.symbols.text(values["func"]), values["depth"]
        call: Truth = {"type": "call", "depth": depth}
        if name == EXIT:
            matched = depth >= _DEPTHS or inside.pop((record.cpu, depth), 0) == values["func"]
            named = not matched or "funcgraph-tail" in options
            yield {**call, "kind": "exit", "function": function * named, **_duration(values), **shown}
            continue
        after = following[number]
        if after is not None and _is_exit(record, records[after], values, known):
            gone.add(after)
            inside.pop((record.cpu, depth), None)
            ended = _values(records[after], known)
            yield {**call, "kind": "leaf", "function": function, **_duration(ended), **shown}
        else:
            inside[record.cpu, depth] = values["func"]
            yield {**call, "kind": "entry", "function": function, **shown}


def _following(records: Sequence[RawRecord]) -> list[int | None]:
    """Return the number of the next record of the same CPU for each."""
    following: list[int | None] = [None] * len(records)
    last: dict[int, int] = {}
    for number, record in enumerate(records):
        if record.cpu in last:
            following[last[record.cpu]] = number
        last[record.cpu] = number
    return following


def _values(record: RawRecord, known: Mapping[int, Event]) -> dict[str, int]:
    values = {field.name: field.value(record.data) for field in known[record.ident].fields if not field.is_array}
    return {name: value for name, value in values.items() if isinstance(value, int)}


def _is_exit(record: RawRecord, after: RawRecord, values: Mapping[str, int], known: Mapping[int, Event]) -> bool:
    if known[after.ident].name != EXIT or after.pid != record.pid:
        return False
    return _values(after, known)["func"] == values["func"]


def _duration(values: Mapping[str, int]) -> dict[str, int]:
    """Return how long a call took, in nanoseconds, as far as there is room for its digits."""
    lasted = values["rettime"] - values["calltime"]
    digits = max(0, min(3, _WIDTH - len(str(lasted // 1000))))
    unit = 10 ** (3 - digits)
    return {"duration": lasted // unit * unit}


def _context(record: RawRecord, guest: Columns, options: Collection[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if "funcgraph-proc" in options:
        comm: str = context(record, guest, ["noirq-info"])["task"]
        shown = comm.encode("utf-8", "surrogateescape")[:_COMM].decode("utf-8", "surrogateescape")
        values |= {"task": shown, "pid": record.pid}
    if "nofuncgraph-cpu" not in options:
        values["cpu"] = record.cpu
    if "latency-format" in options:
        values["flags"] = flags(record, guest.letters)
    if "funcgraph-abstime" in options:
        values |= {"timestamp": record.timestamp // 1000 * 1000, "clock": "time"}
    return values
