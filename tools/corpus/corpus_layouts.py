"""`make corpus` imports it: the columns of recorded lines, by kernel and option, for the truth of the corpus.

The columns of a recording are known beforehand: nothing is recognised here, and a line with other columns is an error.
It shares no code with kprobe_text.text, which is held to this truth.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

GRAPH_TIMES = rb"(?:[ +!#*@$]{1,2} *(?P<duration>\d+(?:\.\d+)?) us *| {14,})"


class Layout(NamedTuple):
    """How a record's context is printed: a pattern with the names of what it says, and how to read them."""

    kind: str  # standard latency verbose bare numbers hex binary graph
    context: re.Pattern[bytes]


def layout(name: str, series: str, options: Sequence[str]) -> Layout:
    """Return the layout of a recording of a series, by its name and its trace options."""
    number = tuple(int(part) for part in series.removesuffix("fp").split("."))
    letters = 5 if number >= (6, 1) else 4
    pid = rb"-(?P<pid>\d+) +"
    if "bin" in options:
        return Layout("binary", re.compile(rb"(?!)"))
    if "raw" in options:
        return Layout("numbers", re.compile(rb"(?P<pid>\d+) (?P<cpu>\d+) (?P<stamp>\d+) type: (?P<event>\d+)\n"))
    if "hex" in options:
        hexes = rb"(?P<pid>[0-9a-f]{8}) (?P<cpu>[0-9a-f]{8}) (?P<stamp>[0-9a-f]{16}) type: (?P<event>\d+)\n\n?"
        return Layout("hex", re.compile(hexes))
    if "fgraph" in name:
        return Layout("graph", _graph(name, letters))
    if "nocontext-info" in options:
        return Layout("bare", re.compile(b""))
    if "verbose" in options and "latency-format" in options:
        shown = rb"(?P<task>.{16}) +(?P<pid>\d+) +(?P<cpu>\d+) (?P<flags>\d+ [0-9a-f]{8}) [0-9a-f]{8} "
        times = rb"\[(?P<hexstamp>[0-9a-f]+)\] \d+\.\d{3}ms \(\+\d+\.\d{3}ms\): "
        return Layout("verbose", re.compile(shown + times, re.S))
    if "latency-format" in options:
        flags = rb"(?P<cpu>\d+)(?P<flags>[^ \d][^ \n]{%d})" % (letters - 1)
        return Layout("latency", re.compile(rb"(?P<task>.{8})" + pid + flags + rb" +(?P<us>\d+)(?P<mark>us.)?: ", re.S))
    tgid = rb"\( *(?P<tgid>\d+|-+)\) " if "record-tgid" in options else b""
    flags = b"" if number < (3, 3) or "noirq-info" in options else rb"(?P<flags>[^ \n]{%d}) " % letters
    shown = rb"(?P<task>.{16})" + pid + tgid + rb"\[(?P<cpu>\d{3})\] " + flags
    return Layout("standard", re.compile(shown + rb" *(?P<stamp>\d+\.\d{6}|\d+): ", re.S))


def _graph(name: str, letters: int) -> re.Pattern[bytes]:
    """Return the columns of tracer function_graph: CPU alone, or as in these recordings with time and task."""
    columns = rb" (?P<cpu>\d+)\) "
    if "abstime" in name:
        columns = rb" *(?P<stamp>\d+\.\d{6}) \|  +(?P<cpu>\d+)\) +(?P<task>.+?)-(?P<pid>\d+) +\| "
    elif "latency" in name:
        flags = rb"(?P<flags>[^ ]{%d})" % letters
        columns = rb" *(?P<stamp>\d+\.\d{6}) \| +(?P<task>.+?)-(?P<pid>\d+) +\|  " + flags + rb"(?: \| )?"
    return re.compile(columns + GRAPH_TIMES + rb"\|  (?P<indent> *)")


def decoded(data: bytes) -> str:
    """Return text with bytes that aren't UTF-8 as lone surrogates."""
    return data.decode("utf-8", "surrogateescape")


def context(known: Layout, found: re.Match[bytes]) -> dict[str, Any]:
    """Return who, when and where of a record, as the schema of the truth has them."""
    said: dict[str, bytes | None] = found.groupdict()
    shown: dict[str, Any] = {}
    if (task := said.get("task")) is not None:
        shown["task"] = decoded(task.lstrip(b" "))
    base = 16 if known.kind == "hex" else 10
    for name in ("pid", "cpu", "tgid"):
        if (text := said.get(name)) is not None and b"-" not in text:
            shown[name] = int(text, base)
    if (flags := said.get("flags")) is not None:
        shown["flags"] = flags.decode()
    return shown | _stamp(said, base)


def _stamp(said: dict[str, bytes | None], base: int) -> dict[str, Any]:
    if (microseconds := said.get("us")) is not None:
        is_time = said["mark"] is not None
        value = int(microseconds) * (1000 if is_time else 1)
        return {"timestamp": value, "clock": "elapsed" if is_time else "elapsed count"}
    if (text := said.get("hexstamp")) is not None:
        return {"timestamp": int(text, 16) * 1000, "clock": "time"}
    if (text := said.get("stamp")) is None:
        return {}
    seconds, point, fraction = text.partition(b".")
    if point:
        return {"timestamp": int(seconds) * 10**9 + int(fraction) * 1000, "clock": "time"}
    return {"timestamp": int(text, base), "clock": "count"}
