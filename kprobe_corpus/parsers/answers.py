"""A parser's answer: lines of JSON -> records.  A line that isn't a record is reported with its number."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from kprobe_corpus.traces.record import fault_of, parsed

Record = dict[str, Any]

EVENT = "event"
UNPARSED = "unparsed"  # the parser doesn't understand some text
NO_RECORD = "no record"  # the type of a line that isn't a record; "why" says what is wrong, "line" is its number
IGNORED = ("header", "crashed")  # types that aren't records of the trace
LONGEST = 200  # characters of a bad line that are shown


_PLACE = re.compile(r"([^\s+]+)\+0x([0-9a-f]+)(?:/0x[0-9a-f]+)?(?: \[[^\s\]]+\])?")


def read(output: bytes) -> list[Record]:
    """Return the records of an answer, in its order; a line that isn't a record becomes one of the type "no record"."""
    records = []
    for number, line in enumerate(output.split(b"\n"), 1):
        if line.strip():
            record = record_of(line)
            if record["type"] == NO_RECORD:
                record["line"] = number
            if record["type"] not in IGNORED:
                records.append(record)
    return records


def record_of(line: bytes) -> Record:
    """Return the record of one line of JSON."""
    shown = line[:LONGEST].decode("utf-8", "backslashreplace")
    try:
        read_: Record = parsed(line)
    except ValueError as error:
        return {"type": NO_RECORD, "why": f"it isn't JSON in UTF-8 ({error})", "text": shown}
    if why := fault_of(read_):
        return {"type": NO_RECORD, "why": why, "text": shown}
    return read_


def sizeless(records: Iterable[Record]) -> list[Record]:
    """Return records of a trace.dat with addresses and times in the form common to its readers.

    An address is a function and an offset: sizes of functions and names of modules aren't in the file, and some readers
    print no offset of 0.  Times are rounded to microseconds, as in text.
    """
    return [_sizeless(record) for record in records]


def _sizeless(record: Record) -> Record:
    places: Record = {key: _place(record[key]) for key in ("address", "caller") if key in record}
    if isinstance(frames := record.get("frames"), list):
        places["frames"] = [_place(frame) for frame in frames]
    if isinstance(stamp := record.get("timestamp"), int):
        places["timestamp"] = (stamp + 500) // 1000 * 1000
    fields = record.get("fields")
    if isinstance(fields, dict):
        places["fields"] = {name: _place(value) for name, value in fields.items()}
    return {**record, **places}


def _place(value: object) -> object:
    found = _PLACE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return value
    return found[1] if int(found[2], 16) == 0 else f"{found[1]}+0x{found[2]}"
