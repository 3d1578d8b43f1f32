"""The columns of a record in a kernel's text under trace options: task, time, CPU, code addresses.

The rules are the kernel's (Documentation/trace/ftrace.rst, "output format"), checked with the recordings in
fixtures/text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from kprobe_vm.traces.pages import RawRecord

_RESCHED = {0: ".", 4: "n", 32: "p", 36: "N", 2: "l", 6: "b", 34: "L", 38: "B"}
_INTERRUPT = {0: ".", 8: "h", 16: "s", 24: "H"}


class CodePlaces:
    """The names of addresses in a kernel's code, from /proc/kallsyms."""

    def __init__(self, text: str) -> None:
        rows = []
        for number, line in enumerate(text.splitlines()):
            address, _, name, *module = line.split()
            rows.append((int(address, 16), number, name, module[0] if module else ""))
        # of several names for one address the kernel takes the first
        rows.sort()
        self._rows: list[tuple[int, str, str]] = []
        for start, _, name, owner in rows:
            if not self._rows or self._rows[-1][0] != start:
                self._rows.append((start, name, owner))
        self._starts = [row[0] for row in self._rows]

    def text(self, address: int, options: Collection[str] = (), *, offset: bool = False) -> str:
        """Return an address in code as the kernel prints it; ``offset``: with its offset under any options."""
        at = bisect_right(self._starts, address) - 1
        if at < 0 or at + 1 == len(self._rows):
            shown = f"0x{address:x}"
        else:
            start, name, owner = self._rows[at]
            if name == "kretprobe_trampoline" and not offset and "sym-offset" not in options:
                name = "[unknown/kretprobe'd]"  # up to 5.18
            shown = name
            if offset or "sym-offset" in options:
                shown += f"+0x{address - start:x}/0x{self._starts[at + 1] - start:x}"
            shown += f" {owner}" if owner else ""
        return f"{shown} <{address:016x}>" if "sym-addr" in options else shown


class Columns(NamedTuple):
    """The state of a guest that its text depends on: names and groups of tasks when it is read, and its columns."""

    symbols: CodePlaces
    comms: Mapping[int, str]
    tgids: Mapping[int, int]
    letters: int  # of the flags: 4, 5 with migrate-disable
    counts: bool  # its clock doesn't count nanoseconds
    plain_functions: bool  # a return probe's function has no offset under any options


def flags(record: RawRecord, letters: int) -> str:
    """Return the letters of the column of flags."""
    raw = record.flags
    off = {(True, True): "D", (True, False): "d", (False, True): "b"}.get((bool(raw & 1), bool(raw & 128)), ".")
    depth = record.preempt_count & 15 if letters == 5 else record.preempt_count
    interrupt = ("Z" if raw & 8 else "z") if raw & 64 else _INTERRUPT[raw & 24]
    shown = off + _RESCHED[raw & 38] + interrupt + (f"{depth:x}" if depth else ".")
    if letters == 5:
        migrate = record.preempt_count >> 4
        shown += f"{migrate:x}" if migrate else "."
    return shown


def context(record: RawRecord, guest: Columns, options: Collection[str]) -> dict[str, Any]:
    """Return task, time and CPU, as far as the text shows them under these options.

    In latency-format times count from the start of the buffer, which only the text shows: they are left out.
    """
    if "nocontext-info" in options:
        return {}
    latency, verbose = "latency-format" in options, "verbose" in options
    task = guest.comms.get(record.pid, "<...>") if record.pid else "<idle>"
    if latency and not verbose:
        task = task.encode("utf-8", "surrogateescape")[:8].decode("utf-8", "surrogateescape")
    shown: dict[str, Any] = {"task": task, "pid": record.pid, "cpu": record.cpu}
    if task.startswith(" "):
        shown["ambiguous"] = ["task"]  # blanks fill the column, too
    if latency and verbose:
        shown["flags"] = f"{record.flags} {record.preempt_count:08x}"
    elif latency or "noirq-info" not in options:
        shown["flags"] = flags(record, guest.letters)
    if "record-tgid" in options and not latency and record.pid in guest.tgids:
        shown["tgid"] = guest.tgids[record.pid]
    if latency and not verbose:
        return shown
    if guest.counts:
        return {**shown, "timestamp": record.timestamp, "clock": "count"}
    return {**shown, "timestamp": (record.timestamp + 500) // 1000 * 1000, "clock": "time"}
