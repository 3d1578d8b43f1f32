"""The columns before an event's name in each layout -> task, pid, CPU, flags and time, with caches for what repeats."""

import re
from typing import Final, NamedTuple, TypeAlias, TypeVar

from kprobe_text.text.arguments import decode
from kprobe_text.text.layout import (
    GRAPH,
    LATENCY,
    LOOSE,
    PERF,
    REPORT,
    REPORT_LATENCY,
    STANDARD,
    STANDARD_CONTEXT,
    VERBOSE,
)
from kprobe_text.text.records import Clock

# A hostile trace could make each line new; no table grows beyond this many rows.
_ROWS: Final = 8192

_GRAPH_CONTEXT: Final = ("seconds", "fraction", "cpu", "task", "pid", "flags")

K = TypeVar("K")
V = TypeVar("V")

Columns: TypeAlias = tuple[str, int, int | None, int, str]
"""Task, pid, tgid, CPU, flags."""

Context: TypeAlias = tuple[str, int, int | None, int, str, int, Clock]
"""Task, pid, tgid, CPU, flags, timestamp, and what that counts."""


class GraphContext(NamedTuple):
    """What a line of a function_graph says before the call; what it doesn't say is None."""

    task: str | None
    pid: int | None
    cpu: int | None
    flags: str | None
    timestamp: int | None


def keep(table: dict[K, V], key: K, value: V) -> V:
    """Put a row into a table, which is emptied first if it is full."""
    if len(table) >= _ROWS:
        table.clear()
    table[key] = value
    return value


class Contexts:
    """Reads contexts."""

    __slots__ = ("seconds", "standard")

    def __init__(self) -> None:
        self.standard: dict[bytes, Columns] = {}
        self.seconds: dict[bytes, int] = {}

    def read(self, line: re.Match[bytes]) -> Context:
        """Read the context of a line in any layout that has one, but GRAPH: see `graph`."""
        layout = line.re
        if layout is STANDARD:
            columns = self.columns(line["columns"])
            if (count := line["count"]) is not None:
                return *columns, int(count), "count"
            return *columns, self.second(line["seconds"]) + int(line["fraction"]) * 1000, "time"
        if layout is REPORT:
            return *self.columns(line["columns"]), *self._time_of(line)
        if layout is PERF or layout is LOOSE:
            return self._unpadded(line)
        if layout is VERBOSE:
            return _verbose(line)
        task, pid = decode(line["task_pid"][:8].lstrip(b" ")), _digits(line["task_pid"][9:])
        columns = task, pid, None, int(line["cpu"]), decode(line["flags"])
        if layout is REPORT_LATENCY:
            return *columns, *self._time_of(line)
        if line["unit"] is None:
            return *columns, int(line["time"]), "elapsed count"
        return *columns, int(line["time"]) * 1000, "elapsed"

    def _unpadded(self, line: re.Match[bytes]) -> Context:
        pid, tgid, cpu = int(line["pid"]), None, line["cpu"]
        if line.re is LOOSE:
            tgid = None if line["tgid"] is None else _tgid(line["tgid"])
        elif line["thread"] is not None:
            pid, tgid = int(line["thread"]), pid
        columns = decode(line["task"]), pid, tgid, -1 if cpu is None else int(cpu), decode(line["flags"] or b"")
        return *columns, self._time(line["seconds"], line["fraction"]), "time"

    def graph(self, line: re.Match[bytes]) -> GraphContext:
        """Read the context of a line of a function_graph."""
        seconds, fraction, cpu, task, pid, flags = line.group(*_GRAPH_CONTEXT)
        return GraphContext(
            None if task is None else decode(task),
            None if pid is None else int(pid),
            None if cpu is None else int(cpu),
            None if flags is None else decode(flags),
            None if seconds is None else int(seconds) * 1000 if fraction is None else self._time(seconds, fraction),
        )

    def columns(self, text: bytes) -> Columns:
        """Read the columns of the usual layout."""
        if (known := self.standard.get(text)) is not None:
            return known
        parts = STANDARD_CONTEXT.fullmatch(text)
        assert parts is not None
        comm, pid, tgid, cpu, flags = parts.groups()
        leader = None if tgid is None else _tgid(tgid)
        return keep(self.standard, text, (decode(comm.lstrip(b" ")), int(pid), leader, int(cpu), decode(flags or b"")))

    def second(self, text: bytes) -> int:
        """Read whole seconds, as nanoseconds."""
        known = self.seconds.get(text)
        return keep(self.seconds, text, int(text) * 1_000_000_000) if known is None else known

    def _time_of(self, line: re.Match[bytes]) -> tuple[int, Clock]:
        """Read the time of a report; without a fraction it is the buffer's own number, in whatever unit."""
        seconds, fraction = line.group("seconds", "fraction")
        return (int(seconds), "count") if fraction is None else (self._time(seconds, fraction), "time")

    def _time(self, seconds: bytes, fraction: bytes) -> int:
        return self.second(seconds) + int(fraction) * (1000 if len(fraction) == 6 else 1)


def _verbose(line: re.Match[bytes]) -> Context:
    shown, time = line["task_pid"], int(line["time"], 16)
    columns = decode(shown[:16].lstrip(b" ")), int(shown[16:]), None, int(line["cpu"]), decode(line["flags"])
    return (*columns, time, "count") if line["unit"] is None else (*columns, time * 1000, "time")


def decimal(line: re.Match[bytes]) -> bool | None:
    """Say whether the pid's column is wide, as on kernels that print every hexadecimal number with 0x.

    It has 5 characters up to 4.19 and 7 at 5.10 (fixtures/text); a pid of 7 digits fills either. None if the layout has
    no such column.
    """
    if line.re is STANDARD:
        return has_wide_pids(line["columns"])
    if line.re is LATENCY:
        # here the CPU's number follows, 3 wide
        return line["task_pid"][15:16] == b" " and line.end("cpu") - line.start() >= 20
    return False if line.re in (REPORT, REPORT_LATENCY) else None


def has_wide_pids(columns: bytes) -> bool:
    """Say the same of the columns of the standard layout."""
    return columns[23] == 32 and columns[25] in b"[("


def is_graph(line: re.Match[bytes]) -> bool:
    """Say whether a line is one of a function_graph."""
    return line.re is GRAPH


def _digits(text: bytes) -> int:
    return int(text.partition(b" ")[0])


def _tgid(text: bytes) -> int | None:
    digits = text.strip(b" ")
    return int(digits) if digits.isdigit() else None
