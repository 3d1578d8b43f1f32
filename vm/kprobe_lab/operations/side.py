"""One side of a comparison: a tracefs restored between cases, and answers without what differs by nature."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Container, Iterable
from typing import Any

from kprobe_lab.operations.operation import PID, Handle, Make, Observed, Operation, Outcome, Write, perform
from kprobe_lab.operations.oracle import Oracle

_PIDS = ("set_event_pid", "set_event_notrace_pid")
_LISTS = ("set_event", *_PIDS, "error_log")
_VALUES = (
    *("trace_clock", "buffer_size_kb", "saved_cmdlines_size", "tracing_thresh", "max_graph_depth", "buffer_percent"),
    *("tracing_cpumask", "stack_max_size", "tracing_max_latency"),
)
_REMEMBERED = (
    *("enable", "header_event", "header_page", "sched/enable", "sched/filter", "syscalls/enable", "syscalls/filter"),
)
_HASHED = re.compile(rb"0x(?:00000000[0-9a-f]{8}|\(____ptrval____\))")  # the latter until the kernel has a key
_ID = re.compile(rb"(?m)^ID: (\d+)$")
_LOGGED = re.compile(rb"(?m)^\[ *\d+\.\d{6}\] ")
# comm-pid, CPU, flags, time of a trace line; on each side another task writes the marks
_TRACED = re.compile(rb".{16}-\d+ +((?:\(.{7}\) )?\[\d{3}\] (?:[^ ]{4,5} )?) *\d+(?:\.\d{6})?: ")
_LATENCY = re.compile(rb".{8}-\d+ +(\d+[^ ]{4,5}) +-?\d+us.: ")
_VERBOSE = re.compile(
    rb"(?m)^.{16} +\d+( +\d+ \d+ [0-9a-f]{8} [0-9a-f]{8}) \[[0-9a-f]+\] -?\d+\.\d{3}ms \(\+-?\d+\.\d{3}ms\): "
)
_RAW = re.compile(rb"(?m)(# [0-9a-f]+ buf:)((?: [0-9a-f]{2})+)$")  # ends with old contents of the buffer
_RESCHED = re.compile(rb"(task (?:(?:\(tgid\) )?\[\d{3}\] |\d+).)[NnpBLbl]")  # whether another task wants the CPU
_MADE_CODE = re.compile(rb"(?m)^( => )0xffffffffc0[0-9a-f]{6}$")  # where this boot put a trampoline of ftrace
_STATS = re.compile(rb"(?m)^(oldest event ts|now ts): .*$")
_RAW_HEAD = re.compile(rb"(?m)^\d+ (\d+) \d+ (?=type: )")
_TYPE = re.compile(rb"(?<=type: )\d+")
_TGID = re.compile(rb"\((?: *\d+|-{7})\) ")  # known or not, depending on what earlier cases traced
_COUNT = re.compile(rb":unlimited|:count=")
_COUNTED_OTHER = re.compile(rb"(common_(?:pid|type))[.a-z]*: [^,}\n]*")
_COUNTED_ENTRY = re.compile(rb"(?m)^\{.*\n(?:\t.*\n)*")
# where a string or a record lay, or ftrace's trampoline in a call chain
_COUNTED_ADDRESS = re.compile(rb"\b(1844(?:5\d|6[0-6])\d{14}|ffff8[0-9a-f]{11}|0xffffffffc0[0-9a-f]{6})\b")
_COUNTED_TIME = re.compile(rb"(common_timestamp[.a-z]*|max|changed|variable|\) }): +\d+")
_PLACEHOLDER = re.compile(rb"\x01(0x[0-9a-f]+)\x02")


def event_lists(there: Container[str]) -> list[str]:
    """Return the files of a tracefs that define events: one for all kinds; before 5.0 one for each kind."""
    each = ("dynamic_events",) if "dynamic_events" in there else ("kprobe_events", "uprobe_events", "synthetic_events")
    return [path for path in each if path in there]


def _in_no_order(text: bytes) -> bytes:
    """Sort the entries of a histogram: keys that hold times come in the order of their hashes."""
    entries = sorted(_COUNTED_ENTRY.findall(text))
    return _COUNTED_ENTRY.sub(lambda _: entries.pop(0), text)


class Side:
    """A tracefs under comparison; `workload` is its task that makes calls, or None."""

    def __init__(self, tracefs: Any, workload: Any = None) -> None:
        self.tracefs = tracefs
        self.workload = workload
        self._hashes: dict[bytes, bytes] = {}
        self._hash_of: dict[bytes, bytes] = {}
        self._touched: set[str] = set()
        self._triggers: dict[str, None] = {}
        self._instances: list[str] = []
        self._there = frozenset(tracefs.listdir(""))  # no top-level file comes or goes while a kernel runs
        tracefs.write("buffer_size_kb", b"1408")  # from now on the buffers are expanded
        for name in _REMEMBERED:  # from now on they hide directories of their names
            tracefs.read(f"events/{name}")
        self._options = self._option_states()
        self._values = {name: self._value(name) for name in _VALUES if name in self._there}
        self._first_id = self._measure_id()

    def observe(self, operation: Observed) -> Observed:
        """Make a call on a real kernel; return it with the hits that the oracle saw.

        Without an oracle nothing is done: the function can't be probed, or the kernel has no arrays (before 4.20).
        """
        if not hasattr(self.workload, "call"):  # a simulator in the kernel's place makes no system calls
            return operation._replace(hits=())
        oracle = Oracle(self.tracefs)
        if not oracle.is_there():
            return operation._replace(hits=())
        self.workload.call(operation.number, operation.arguments, operation.data)
        return operation._replace(hits=oracle.hits(operation.paths))

    def replay(self, operation: Observed) -> None:
        """Replay on a simulated kernel what an oracle saw on another."""
        for hit in operation.hits or ():
            self.workload.replay(operation.function, hit.registers, hit.memory, hit.chain, hit.returns, hit.returned)

    def run(self, operation: Operation) -> Outcome:
        """Perform one operation; return its answers, with ids, hashed pointers, times and pids normalised."""
        self._note(operation)
        operation = self._filled(operation)
        return [(self._plain_label(label), self._plain(label, answer)) for label, answer in self._perform(operation)]

    def reset(self) -> None:
        """Restore everything that was touched."""
        touched, self._touched = self._touched, set()
        self._clear_triggers()
        for path in reversed(self._instances):
            with contextlib.suppress(OSError):
                self.tracefs.rmdir(path)
        self._instances = []
        if "snapshot" in touched or "trigger" in touched:
            if "snapshot" in self._there:
                self.tracefs.write("snapshot", b"0")
            self.tracefs.write("tracing_on", b"1")
        if touched & {"set_event", "enable", "trigger"}:
            self._truncate("set_event")
        for name in _LISTS[1:]:
            if name in self._there and (name in touched or name == "error_log"):
                self._truncate(name)
        self._remove_all_events()
        if "tracing_on" in touched:
            self.tracefs.write("tracing_on", b"1")
        if "options" in touched:
            self._restore_options()
        self._restore_values(touched)
        if "trace" in touched or "enable" in touched:
            self._truncate("trace")
        self._hashes.clear()
        self._first_id = self._measure_id()

    def close(self) -> None:
        """Let go of the backend."""
        self.tracefs.close()

    def _perform(self, operation: Operation) -> Outcome:
        return perform(operation, self.tracefs, self.workload)

    # what was touched

    def _note(self, operation: Operation) -> None:
        match operation:
            case Make(path):
                self._instances.append(path)
            case Write(path, _, _):
                self._note_path(path)
            case Handle(path, flags, steps):
                if flags & os.O_ACCMODE != os.O_RDONLY:
                    self._note_path(path)
                for step in steps:
                    if isinstance(step, Write | Handle | Make):
                        self._note(step)
            case _:
                pass

    def _note_path(self, path: str) -> None:
        name = path.rpartition("/")[2]
        self._touched.add(name)
        if name == "trigger":
            self._triggers[path] = None
        if "options/" in path or name == "trace_options":
            self._touched.add("options")
        if name.startswith("trace_marker") or name in ("enable", "set_event"):
            self._touched |= {"trace", "enable"}
        if path.endswith("/buffer_size_kb") or name == "free_buffer":
            self._touched.add("buffer_size_kb")

    def _restore_options(self) -> None:
        for name, value in self._option_states().items():
            if value != self._options[name]:
                self.tracefs.write("trace_options", self._options[name].encode())

    def _restore_values(self, touched: set[str]) -> None:
        for name, value in self._values.items():
            # a histogram of times sets the clock (hist_register_trigger() in trace_events_hist.c), which stays
            is_touched = name in touched or (name == "trace_clock" and "trigger" in touched)
            if is_touched and self._value(name) != value:
                self.tracefs.write(name, value)

    def _remove_all_events(self) -> None:
        for path in event_lists(self._there):
            try:
                self._truncate(path)
            except OSError:  # something that wasn't noted is still enabled, or an event is attached to an earlier one
                self._remove_events(path)
                self._truncate(path)

    def _remove_events(self, path: str) -> None:
        words = [line.split()[0] for line in self.tracefs.read(path).splitlines()]
        is_synthetic = path == "synthetic_events"  # which lists them without their group
        events = [b"synthetic/" + word if is_synthetic else word.partition(b":")[2] for word in words]
        directories = [f"events/{event.decode('latin-1')}" for event in events]
        self._triggers |= {f"{directory}/trigger": None for directory in directories}
        self._clear_triggers()
        for directory in directories:
            self.tracefs.write(f"{directory}/enable", b"0")
        for event in dict.fromkeys(reversed(events)):
            self.tracefs.write(path, b"!" + event.partition(b"/")[2] if is_synthetic else b"-:" + event)

    def _clear_triggers(self) -> None:
        """Remove all triggers that were set; a histogram is removed after those that refer to it."""
        for _ in range(len(self._triggers) + 1):
            if not sum(self._remove_triggers(path) for path in reversed(self._triggers)):
                break
        self._triggers.clear()

    def _remove_triggers(self, path: str) -> bool:
        """Remove the triggers of one file; return whether some may be left."""
        try:
            self._truncate(path)  # this removes hist triggers only
            lines = [line for line in self.tracefs.read(path).splitlines() if not line.startswith(b"#")]
        except OSError:  # the event is gone
            return False
        for line in lines:
            with contextlib.suppress(OSError):
                self.tracefs.write(path, b"!" + _COUNT.split(line)[0])
        return bool(lines)

    def _truncate(self, path: str) -> None:
        self.tracefs.write(path, b"", truncate=True)

    def _option_states(self) -> dict[str, str]:
        words: list[str] = self.tracefs.read("trace_options").decode().split()
        return {word.removeprefix("no"): word for word in words}

    def _value(self, name: str) -> bytes:
        text: bytes = self.tracefs.read(name)
        chosen = re.search(rb"\[([^\[\]]+)\]", text)
        return chosen[1] if chosen else text.strip()

    def takes_probe(self, function: str) -> bool:
        """Return whether a probe may be put on a function."""
        try:
            self.tracefs.write("kprobe_events", b"p:zz_id/zz_id " + function.encode())
        except OSError:
            return False
        self.tracefs.write("kprobe_events", b"-:zz_id/zz_id")
        return True

    def _measure_id(self) -> int:
        self.tracefs.write("kprobe_events", b"p:zz_id/zz_id vfs_read")
        number = int(self.tracefs.read("events/zz_id/zz_id/id"))
        self.tracefs.write("kprobe_events", b"-:zz_id/zz_id")
        return number

    # hashed pointers in written data: \x01ADDRESS\x02 stands for the address as this machine prints it

    def _filled(self, operation: Operation) -> Operation:
        match operation:
            case Write(path, data, flags):
                return Write(self._fill(path.encode("latin-1")).decode("latin-1"), self._fill(data), flags)
            case _:
                return operation

    def _fill(self, data: bytes) -> bytes:
        if PID in data and self.workload is not None:
            data = data.replace(PID, b"%6d" % self.workload.pid)  # as wide on either side
        return _PLACEHOLDER.sub(lambda match: self._hashed(match[1]), data)

    def _hashed(self, address: bytes) -> bytes:
        hashed = self._hash_of.get(address)
        if hashed is None:
            self.tracefs.write("kprobe_events", b"p:zz_id/zz_id " + address)
            lines = self.tracefs.read("kprobe_events").splitlines()
            hashed = next(line.split()[1] for line in lines if line.startswith(b"p:zz_id/zz_id "))
            self.tracefs.write("kprobe_events", b"-:zz_id/zz_id")
            self._hash_of[address] = hashed
        return hashed

    # answers without what differs by nature

    def _plain_label(self, label: str) -> str:
        return self._unhash(label.encode("latin-1")).decode("latin-1")

    def _unhash(self, text: bytes) -> bytes:
        return _HASHED.sub(lambda match: self._hashes.setdefault(match[0], b"0xhashed%010d" % len(self._hashes)), text)

    def _plain(self, label: str, answer: Any) -> Any:
        if isinstance(answer, list):
            return sorted(self._names(answer))
        if not isinstance(answer, bytes):
            return answer
        answer = _ID.sub(self._relative_id, self._unhash(answer))
        name = label.rpartition("/")[2]
        if self.workload is not None and name in ("filter", "trigger", "error_log", *_PIDS):
            before = rb"^" if name in _PIDS else rb"(?<=common_pid ==) *"
            answer = re.sub(rb"(?m)%b%d\b" % (before, self.workload.pid), b" PID", answer)
        if name == "id" and answer.strip().isdigit() and int(answer) >= self._first_id:
            return b"id+%d\n" % (int(answer) - self._first_id)
        answer = _LOGGED.sub(b"[time] ", answer)
        answer = _RAW.sub(lambda match: b"%s %d bytes" % (match[1], min(len(match[2]) // 3, 1200)), answer)
        answer = _STATS.sub(rb"\1: time", answer)
        if name == "hist":
            answer = _COUNTED_ADDRESS.sub(b"address", _COUNTED_OTHER.sub(rb"\1: ", answer))
            if b"common_timestamp" in answer:
                answer = _in_no_order(_COUNTED_TIME.sub(rb"\1: time", answer))
        if b"us" in answer:
            answer = _LATENCY.sub(rb"task \1 time: ", answer)
        if b"ms): " in answer:
            answer = _VERBOSE.sub(rb"task\1 time: ", answer)
        answer = _TYPE.sub(self._relative_type, _RAW_HEAD.sub(rb"task \1 time ", answer))
        answer = _TRACED.sub(lambda match: b"task %stime: " % _TGID.sub(b"(tgid) ", match[1]), answer)
        return _RESCHED.sub(rb"\1.", _MADE_CODE.sub(rb"\1made code", answer))

    def _names(self, names: Iterable[str]) -> Iterable[str]:
        return [self._plain_label(name) for name in names]

    def _relative_id(self, match: re.Match[bytes]) -> bytes:
        number = int(match[1])
        return b"ID: +%d" % (number - self._first_id) if number >= self._first_id else match[0]

    def _relative_type(self, match: re.Match[bytes]) -> bytes:
        number = int(match[0])
        return b"+%d" % (number - self._first_id) if number >= self._first_id else match[0]
