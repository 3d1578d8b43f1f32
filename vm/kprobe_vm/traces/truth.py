"""From raw records to the contents of their text: the truth of an entry."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from kprobe_vm.traces.activity import BEGIN, Done
from kprobe_vm.traces.columns import Columns, context
from kprobe_vm.traces.pages import Event, RawRecord
from kprobe_vm.traces.syscalls import SYSTEMS, values_of

Truth = dict[str, Any]

_END = 2**64 - 1
_COMMON = re.compile(r"common_\w+")
# %pS of the print fmt, by the argument's name
_PLACE = re.compile(r" (\w+)=%pS")
_STRING = re.compile(r'" (\w+)="')


def in_order(records: Iterable[RawRecord]) -> list[RawRecord]:
    """Return the records of all CPUs as `trace` has them: by time, of the same time those of the first CPU first."""
    return sorted(records, key=lambda record: (record.timestamp, record.cpu))


def truth_of(
    records: Iterable[RawRecord], known: Mapping[int, Event], guest: Columns, options: Collection[str]
) -> Iterator[Truth]:
    """Yield what the text of records says under trace options."""
    for record in records:
        event = known[record.ident]
        if "raw" in options or "hex" in options:
            stamp = {"cpu": record.cpu, "pid": record.pid, "timestamp": record.timestamp, "clock": "count"}
            yield {"type": "coded", "event_id": record.ident, **stamp}
        elif event.group == "ftrace":
            yield {**_of_ftrace(record, event, guest, options), **context(record, guest, options)}
        else:
            yield _event(record, event, guest, options)


def started(truth: Iterable[Truth]) -> list[Truth]:
    """Insert the lines that say where a CPU's part of an overwritten buffer begins, except for the first."""
    seen: set[int] = set()
    truths: list[Truth] = []
    for record in truth:
        if truths and record["cpu"] not in seen:
            truths.append({"type": "started", "cpu": record["cpu"]})
        seen.add(record["cpu"])
        truths.append(record)
    return truths


def piped(done: Sequence[Done], stats: Sequence[Mapping[str, int]]) -> list[Truth]:
    """Return what trace_pipe says of the opens left in each CPU's buffer, without times.

    The tasks ran one after another, each on its own CPU.
    """
    truth: list[Truth] = []
    for cpu, numbers in enumerate(stats):
        acts = [one for one in done if one.task.cpu == cpu and one.act is not BEGIN]
        if numbers["overrun"]:
            truth.append({"type": "lost", "cpu": cpu, "count": numbers["overrun"]})
        for one in acts[len(acts) - numbers["entries"] :]:
            assert one.act.path is not None
            fields = {"dfd": one.act.arguments[0], "s": one.act.path.decode()}
            shown = {"task": one.task.comm.decode(), "pid": one.pid, "cpu": cpu}
            truth.append({"type": "event", "name": "ent", **shown, "fields": fields})
    return truth


def _event(record: RawRecord, event: Event, guest: Columns, options: Collection[str]) -> Truth:
    if event.group in SYSTEMS and "fields" not in options:
        said, doubts = values_of(record, event, options)
        head: Truth = {"type": "event", "name": event.name, **context(record, guest, options)}
        if doubts:
            head["ambiguous"] = [*head.get("ambiguous", ()), *doubts]
        return {**head, "fields": said}
    values = {field.name: field.value(record.data) for field in event.fields if not _COMMON.fullmatch(field.name)}
    shown: Truth = {"type": "event", "name": event.name, **context(record, guest, options)}
    # option fields prints addresses as numbers up to 7.0 and as symbols later; only the text shows which
    by_field = "fields" in options
    if "__probe_func" in values:
        function, to = values.pop("__probe_func"), values.pop("__probe_ret_ip")
        assert isinstance(function, int)
        assert isinstance(to, int)
        plain = [option for option in options if option != "sym-offset" or not guest.plain_functions]
        if not by_field:
            shown["address"] = guest.symbols.text(function, plain)
            shown["caller"] = guest.symbols.text(to, options, offset=True)
    elif "__probe_ip" in values:
        address = values.pop("__probe_ip")
        assert isinstance(address, int)
        if not by_field:
            shown["address"] = guest.symbols.text(address, options, offset=True)
    for name in () if by_field else _PLACE.findall(event.shown):
        value = values[name]
        assert isinstance(value, int)
        text = guest.symbols.text(value, offset=True)
        values[name] = value if text.startswith("0x") else text
    if event.group == "sched":
        values.pop("prev_state", None)  # letters, by a table of the kernel
        values = {label: values[name] for name, label in _labels(event).items() if name in values}
    doubtful = _doubtful(values, event)
    if doubtful:
        shown["ambiguous"] = [*shown.get("ambiguous", ()), *doubtful]
    return {**shown, "fields": values}


def _labels(event: Event) -> dict[str, str]:
    """Return the labels of the fields in the text, by the position of the fields in the print fmt."""
    shown, _, expressions = event.shown.rpartition('", ')
    labels, fields = re.findall(r"\b(\w++)=%", shown), re.findall(r"(?:REC->|__get_str\()(\w+)", expressions)
    if len(labels) == len(fields):
        return dict(zip(fields, labels, strict=True))
    return {label: label for label in labels}


def _doubtful(values: Mapping[str, Any], event: Event) -> list[str]:
    """Name the strings whose ends no reader can find: one contains the words before the next one's value."""
    names = [name for name, value in values.items() if isinstance(value, str)]
    for first, second in pairwise(names):
        if f'" {second}="' in str(values[first]):
            return [first, second]
    return []


def _of_ftrace(record: RawRecord, event: Event, guest: Columns, options: Collection[str]) -> Truth:
    """Return the truth of a record of ftrace itself: a stack, a marker, a call."""
    data = record.data
    fields = {field.name: field for field in event.fields}
    if event.name in ("kernel_stack", "user_stack"):
        start = fields["caller"].offset
        addresses = [int.from_bytes(data[at : at + 8], "little") for at in range(start, len(data) - 7, 8)]
        if event.name == "user_stack":
            used = [address for address in addresses if address not in (0, _END)]
            return {"type": "stack", "user": True, "frames": [f"<{address:016x}>" for address in used]}
        count = fields["size"].value(data)
        assert isinstance(count, int)
        frames = [guest.symbols.text(address, options) for address in addresses[:count] if address != _END]
        return {"type": "stack", "user": False, "frames": frames}
    if event.name == "print":
        text = data[fields["buf"].offset :].partition(b"\0")[0].decode("utf-8", "surrogateescape")
        return {"type": "marker", "text": text.removesuffix("\n")}
    if event.name == "raw_data":
        identifier = fields["id"].value(data)
        return {"type": "rawmarker", "identifier": identifier, "data": data[fields["buf"].offset :].hex()}
    ip, parent = fields["ip"].value(data), fields["parent_ip"].value(data)
    assert isinstance(ip, int)
    assert isinstance(parent, int)
    function, caller = guest.symbols.text(ip, options), guest.symbols.text(parent, options)
    return {"type": "function", "function": function, "parent": caller}
