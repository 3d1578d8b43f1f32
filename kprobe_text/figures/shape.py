"""Records as lines of JSON, CSV or plain text.  Each record is one line, whatever its text."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable

from kprobe_text.text import (
    FAULT,
    Bare,
    BufferStarted,
    CodeAddress,
    Event,
    Header,
    Lost,
    Record,
    Unnamed,
    Unparsed,
    Value,
)

COLUMNS = (
    "file", "type", "group", "name", "task", "pid", "tgid", "cpu", "flags", "timestamp", "clock", "address", "caller",
    "complete", "guessed", "fields", "rest",
)  # fmt: skip
_TYPES = {
    "BufferStarted": "started",
    "StackTrace": "stack",
    "Bare": "event",
    "BareMarker": "marker",
    "BareRawMarker": "rawmarker",
    "BareStack": "stack",
    "Coded": "coded",
    "RawMarker": "rawmarker",
}
_OPTIONAL = ("tgid", "group", "instance", "address", "caller")  # left out where empty
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def value(read: object) -> object:
    """Return a value as JSON: a code address as its text, null for what the kernel couldn't read."""
    if isinstance(read, (str, int)):
        return read
    if isinstance(read, CodeAddress):
        return read.text
    if isinstance(read, bytes):
        return read.hex()
    if isinstance(read, frozenset):
        return sorted(read)
    if isinstance(read, dict):
        return {name: value(part) for name, part in read.items()}
    return [value(part) for part in read] if isinstance(read, tuple) else None


def as_dict(record: Record) -> dict[str, object]:
    """Return a record as JSON, with the bytes that it was read from only where some weren't understood."""
    kind = type(record).__name__
    shown: dict[str, object] = {"type": _TYPES.get(kind, kind.lower())}
    for name, read in zip(record._fields, record, strict=True):
        is_empty = (read is None and name != "count") or (read == "" and name in _OPTIONAL)
        if name != "raw" and not is_empty:
            shown[name] = value(read)
    if not shown.get("guessed"):
        shown.pop("guessed", None)
    if not shown.get("forgeable"):
        shown.pop("forgeable", None)
    is_complete = getattr(record, "complete", not isinstance(record, (Unparsed, Header)))
    if not isinstance(record, (Event, Bare)) and is_complete:
        shown.pop("complete", None)
    if not is_complete or isinstance(record, Unnamed):
        shown["raw"] = _decoded(record.raw)
    return shown


def encoded(shown: object) -> str:
    """Encode as JSON on one line."""
    return _encode(shown)


def ndjson(record: Record, file: str) -> str:
    """Return a line of JSON; `file` is left out if it is empty."""
    shown = as_dict(record)
    return _encode({**shown, "file": file} if file else shown) + "\n"


def csv_line(record: Record, file: str) -> str:
    """Return a row of CSV (RFC 4180, but for the line's end): what has no column stands in `rest`, as JSON."""
    shown = {"file": file, **as_dict(record)}
    row: list[object] = [_cell(shown.pop(column, None)) for column in COLUMNS[:-1]]
    return _row([*row, _encode(shown) if shown else ""])


def text(record: Record, file: str) -> str:
    """Return a line to read: time, task, address and values, and what is uncertain about them."""
    shown = as_dict(record)
    words = [file + ":"] if file else []
    stamp, clock = shown.get("timestamp"), shown.get("clock", "time")
    if isinstance(stamp, int):
        words.append(f"{stamp // 10**9}.{stamp % 10**9:09d}" if clock in ("time", "elapsed") else str(stamp))
    if "task" in shown or "pid" in shown:
        words.append(f"{plain(str(shown.get('task', '')))}-{shown.get('pid')}")
    if "cpu" in shown:
        words.append(f"[{shown['cpu']:03d}]")
    words.append(str(shown.get("flags", "")))
    if isinstance(record, (Event, Bare)):
        words.append(f"{plain(record.name)}:" if record.name else "-:")
        if record.address is not None:
            caller = f" -> {plain(record.caller.text)}" if record.caller is not None else ""
            words.append(f"({plain(record.address.text)}{caller})")
        words += [f"{plain(name)}={_shown(read)}" for name, read in record.fields.items()]
        words += [] if record.complete else [f"# not all understood: {_encode(_decoded(record.raw))}"]
    else:
        known = ("type", "timestamp", "clock", "task", "pid", "cpu", "flags", "guessed", "forgeable")
        words.append(f"{shown['type']}:")
        words += [f"{name}={_encode(read)}" for name, read in shown.items() if name not in known]
    guessed: frozenset[str] = getattr(record, "guessed", frozenset())
    words += [f"# guessed: {' '.join(sorted(guessed))}"] if guessed else []
    words += ["# forgeable"] if "forgeable" in shown else []
    return " ".join(word for word in words if word) + "\n"


SHAPES: dict[str, Callable[[Record, str], str]] = {"text": text, "ndjson": ndjson, "csv": csv_line}


def title(shape: str) -> str:
    """Return the heading, which comes before all records."""
    return _row(list(COLUMNS)) if shape == "csv" else ""


class Counts:
    """Counts of the records that a reader may not expect, or that are uncertain."""

    def __init__(self) -> None:
        self.incomplete = self.guessed = self.forgeable = self.unread = self.unnamed = self.lost = self.gaps = 0

    def add(self, record: Record) -> None:
        """Count a record."""
        self.forgeable += getattr(record, "forgeable", False)
        if isinstance(record, (Event, Bare)):
            self.incomplete += not record.complete
            self.guessed += bool(record.guessed)
        elif isinstance(record, Unparsed):
            self.unread += 1
        elif not getattr(record, "complete", True):
            self.incomplete += 1
        elif isinstance(record, Unnamed):
            self.unnamed += 1
        elif isinstance(record, Lost):
            self.lost += record.count or 0
            self.gaps += record.count is None
        elif isinstance(record, BufferStarted):
            self.gaps += 1

    def words(self) -> str:
        """Return the counts in words; empty if all are zero."""
        said = [
            (self.unread, "line{} not understood"),
            (self.unnamed, "event{} without a name"),
            (self.incomplete, "event{} not all understood"),
            (self.guessed, "event{} with guesses"),
            (self.forgeable, "record{} that a string could have forged"),
            (self.lost, "event{} lost by the kernel"),
            (self.gaps, "gap{} where the kernel doesn't say how many it lost"),
        ]
        return ", ".join(f"{count} {words.format('' if count == 1 else 's')}" for count, words in said if count)


def _decoded(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _cell(read: object) -> object:
    return _encode(read) if isinstance(read, (dict, list, bool)) else read


def _row(cells: list[object]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def plain(words: str) -> str:
    """Escape, as JSON does, what would break the line or steer a terminal."""
    return words if words.isprintable() else _encode(words)[1:-1]


def _shown(read: Value) -> str:
    if read is FAULT or isinstance(read, CodeAddress):
        return plain(str(read))
    return _encode(value(read))
