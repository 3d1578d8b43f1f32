"""Developers run it to record a kernel before 5.10: a guest's answers to the recorded rows, as fixtures.

    tools/old_kernels/record_early.py KERNEL SERIES [--like 4.19] [--only definitions,filters,triggers,traces]
                                      [--output fixtures]

KERNEL is a path to a bzImage, or a series.  The questions are read from the fixtures of LIKE, so that the rows of all
series can be compared.  Which options and clocks are traced stands in this file, as far as the kernel has them.  Rows
are asked of a guest with one CPU, traces of one with two.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kprobe_vm.agent.tracefs import GuestTracefs
from kprobe_vm.guest.workload import MEMORY, GuestWorkload
from kprobe_vm.machine.machine import Machine

Row = dict[str, Any]

FIXTURES = Path(__file__).parents[2] / "fixtures"
SETAFFINITY = 203
REQUESTS = 300  # hundreds of them
MODES = {
    "append": os.O_WRONLY | os.O_APPEND,
    "trunc": os.O_WRONLY | os.O_TRUNC,
    "rdwr": os.O_RDWR,
    "plain": os.O_WRONLY,
}
FILTERED = (
    "p:flt do_sys_open dfd=%di:s32 flags=%dx u64f=%dx:u64 f8=%dx:u8 x32f=%dx:x32 bf=%dx:b1@15/32 ptr=%si com=$comm "
    "s=+0(%si):string end=%di"
)
TRIGGERED = (
    "p:flt do_sys_open dfd=%di:s32 flags=%dx u64f=%dx:u64 f8=%dx:u8 bf=%dx:b1@15/32 ptr=%si s=+0(%si):string end=%di"
)
# path, dfd and flags of what a filter sees; the kernel adds 0x8000 (O_LARGEFILE)
FILTER_OPENS = (
    ("/tmp/f0", -5, 0), ("/tmp/f1", -100, 1), ("/tmp/nonexistent", -5, 2), ("/tmp/new1", -100, 0x42),
    ("/etc/passwd", -5, 0x80000), ("/dev/null", -100, 1), ("", -5, 0), ("/tmp/with space", -100, 0),
    ("/tmp/a*b?c[d]", -5, 0), ("rel/f1.txt", -100, 0),
)  # fmt: skip
OPENS = (
    ("/tmp/f0", 0, -100), ("/tmp/nonexistent", 0, -100), ("/etc/hostname", 0, -100), ("/tmp/new", 0x241, -100),
    ("rel", 0, 5),
)  # fmt: skip
SOME = tuple(one for one in OPENS if one[0] != "/etc/hostname")
ODD = (*OPENS[:3], ("", 0, -100), ("/tmp/with space", 0, -100), *OPENS[3:])
NAMES = (
    b"plain", b"my app", b"a-b-1", b"x:y", b"(z)", b"a=b", b"<...>", b"[kw/0:1]", b"-", b"12345", b"trail ",
    b"fifteen-chars-x", b"a-1 [000]", b"=>", b"CPU:0 [LOST 5", b"# tracer: nop",
)  # fmt: skip
CONTROL = (b"new\nline", b"cr\rx", b"\x01\x02\xff")
PROBES = (
    "p:ent do_sys_open dfd=%di:s32 s=+0(%si):string flags=%dx:x32",
    "r:ret do_sys_open ret=$retval:s32 raw=$retval",
)
OPTIONS = (
    "bin", "hex", "latency-format", "latency-format,noirq-info", "latency-format,verbose", "nocontext-info",
    "noirq-info", "norecord-cmd", "raw", "record-tgid", "record-tgid,noirq-info", "stacktrace", "stacktrace,sym-addr",
    "stacktrace,sym-offset", "sym-addr", "userstacktrace", "verbose",
)  # fmt: skip
CLOCKS = ("local", "global", "perf", "mono", "mono_raw", "boot")
FUNCTIONS = ("do_filp_open", "getname_flags", "path_openat", "strncpy_from_user", "vfs_open", "do_sys_open")
COMMON = re.compile(r"\A.*?\tfield:int common_pid;[^\n]*\n", re.S)
OTHERS = re.compile(r"NOHZ|random: (?!crng init done)|tsc: |clocksource: ")  # who else logs meanwhile
ESCAPED = re.compile(r"\\x([0-9a-f]{2})")  # how /dev/kmsg shows a byte that isn't printable, and a backslash
POINTER = re.compile(r"0x0000000[0-9a-f]{9}")


class Recorded:
    """A guest, and what is asked of it."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._files: GuestTracefs = machine.tracefs
        self._log = machine.files.open("dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        self._settle()

    # ---- rows

    def definition(self, row: Row) -> Row:
        """Write one row's input to its file, from nothing on if its state says so; return the row with the answer."""
        if row["state"].startswith("clean"):
            self.clear()
        self._logged()
        number, written = self._write(row["target"], row["input"], MODES[row["mode"]])
        answer = {key: row[key] for key in ("n", "target", "state", "mode", "input")}
        answer |= {"errno": number, "ret": written, "readback": self._text("kprobe_events")}
        log = self._logged()
        if log or number:
            answer["log"] = log
        uprobes = self._text("uprobe_events")
        if uprobes:
            answer["uprobe_events"] = uprobes
        formats = {name: self._format(name) for name in self._events(answer["readback"] + uprobes)}
        if formats and not number and row["target"].endswith("probe_events"):
            answer["format"] = formats
        return answer

    def filters(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Write each filter, and yield it with its errno, what the file says then, and the paths that passed."""
        self.clear()
        self._files.write("kprobe_events", FILTERED.encode())
        event = "events/kprobes/flt"
        task = self._task(b"rec")
        task.call(SETAFFINITY, (0, 8, MEMORY), (1).to_bytes(8, "little"))  # all on one CPU
        for row in rows:
            self._files.write(f"{event}/filter", b"0")
            logs = self._files.exists("error_log")
            if logs:
                self._files.write("error_log", b"", truncate=True)
            number, _ = self._write(f"{event}/filter", row["input"], os.O_WRONLY)
            answer = {"n": row["n"], "input": row["input"], "errno": getattr(errno, number or "", 0)}
            answer["readback"] = self._text(f"{event}/filter")
            if logs and (log := self._text("error_log")):
                answer["log"] = log.partition("] ")[2]  # without the time
            if not number:
                self._files.write("trace", b"", truncate=True)
                self._files.write(f"{event}/enable", b"1")
                for path, dfd, flags in FILTER_OPENS:
                    task.open(path, flags, 0o644, dfd)
                self._files.write(f"{event}/enable", b"0")
                form = rf'-{task.pid} .* s="(.*)" end='
                answer["matched"] = re.findall(form, self._text("trace"))
            yield answer
        task.close()

    def filter_format(self) -> str:
        """Return the format of the event that filters are written to."""
        return self._text("events/kprobes/flt/format")

    def triggers(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Write each trigger to an event that every opening hits, that of its own file too."""
        self.clear()
        self._files.write("kprobe_events", TRIGGERED.encode())
        self._files.write("kprobe_events", b"p:flt2 do_sys_open")
        for row in rows:
            number, written = self._write("events/kprobes/flt/trigger", row["input"], os.O_WRONLY)
            readback = self._text("events/kprobes/flt/trigger")
            yield {"input": row["input"], "errno": number, "ret": written, "readback": readback}

    # ---- traces

    def types(self, definitions: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Define these events; yield the list of them and their formats."""
        self.clear()
        for line in definitions:
            self._files.write("kprobe_events", line.encode())
        yield "01_types.kprobe_events", self._files.read("kprobe_events")
        paths = [f"events/{name}/format" for name in sorted(self._events(self._text("kprobe_events")))]
        yield "01_types.formats", b"".join(b"== %b\n%b" % (path.encode(), self._files.read(path)) for path in paths)

    def traces(self) -> Iterator[tuple[str, bytes]]:
        """Yield the name of each trace and its text."""
        self.clear()
        for probe in PROBES:
            self._files.write("kprobe_events", probe.encode())
        yield "02_comms.trace", self._opened(NAMES, ODD)
        yield "17_comm_newline.trace", self._opened(CONTROL, SOME)
        has = self._text("trace_options").split()
        for options in OPTIONS:
            names = options.split(",")
            if all({name, "no" + name, name.removeprefix("no")} & {*has} for name in names):
                with self._set(names):
                    yield f"03_opt_{options}.trace", self._opened([b"my app"], OPENS * 2)
        for clock in CLOCKS:
            if clock in self._text("trace_clock").replace("[", "").replace("]", "").split():
                self._files.write("trace_clock", clock.encode())
                yield f"04_clock_{clock}.trace", self._opened([b"my app"], OPENS * 2)
                with self._set(["latency-format"]):
                    yield f"04_clock_{clock}_latency.trace", self._files.read("trace")
        self._files.write("trace_clock", b"local")
        self._files.write("trace", b"", truncate=True)
        self._files.write("trace_marker", b"hello")
        yield "07_marker.trace", self._files.read("trace")
        yield "11_offsets.trace", self._offsets()
        self.clear()
        self._files.write("kprobe_events", b"p:ent do_sys_open")
        self._opened([b"plain"], OPENS[:2])
        self._files.write("kprobe_events", b"", truncate=True)
        yield "18_probes_removed.trace", self._files.read("trace")

    def _offsets(self) -> bytes:
        self.clear()
        for name in FUNCTIONS:
            for definition in (f"p:f_{name} {name}", f"r:fr_{name} {name}"):
                with contextlib.suppress(OSError):
                    self._files.write("kprobe_events", definition.encode())
        for offset in range(1, 32):  # those between instructions are refused
            with contextlib.suppress(OSError):
                self._files.write("kprobe_events", b"p:f_at_%d do_sys_open+%d" % (offset, offset))
        return self._opened([b"off app"], OPENS[:3])

    def _opened(self, names: Sequence[bytes], opens: Sequence[tuple[str, int, int]]) -> bytes:
        """Return the trace of tasks of these names that open files, and of nobody else."""
        tasks = [self._task(name) for name in names]
        events = self._events(self._text("kprobe_events"))
        own = " || ".join(f"common_pid == {task.pid}" for task in tasks)
        for event in events:
            self._files.write(f"events/{event}/filter", own.encode())
            self._files.write(f"events/{event}/enable", b"1")
        self._files.write("trace", b"", truncate=True)
        for task in tasks:
            for path, flags, dfd in opens:
                task.open(path, flags, 0o644, dfd)
        for event in events:
            self._files.write(f"events/{event}/enable", b"0")
        for task in tasks:
            task.close()
        return self._files.read("trace")

    # ---- within

    def _settle(self) -> None:
        """Have the kernel be as it is after minutes: with random numbers, and with probes that stay breakpoints.

        Without them %p prints "(____ptrval____)", which no event's name can have; and probes within a function become
        jumps some time after they are armed, which other flags show.
        """
        for _ in range(REQUESTS):  # each is interrupts, of which random numbers are made
            if "random: crng init done" in self._logged():
                break
            for _ in range(100):
                self._files.read("tracing_on")
        with contextlib.suppress(FileNotFoundError):
            self._machine.files.write("proc/sys/debug/kprobes-optimization", b"0")

    def clear(self) -> None:
        """Disable and remove all events."""
        self._files.write("set_event", b"", truncate=True)
        for event in self._events(self._text("kprobe_events")):
            with contextlib.suppress(OSError):
                self._files.write(f"events/{event}/enable", b"0")
        self._files.write("kprobe_events", b"", truncate=True)
        self._files.write("uprobe_events", b"", truncate=True)

    @staticmethod
    def _events(definitions: str) -> list[str]:
        return re.findall(r"^[pr]\d*:(\S+)", definitions, re.M)

    def _task(self, name: bytes) -> GuestWorkload:
        task = GuestWorkload(self._machine)
        task.rename(name)
        return task

    @contextlib.contextmanager
    def _set(self, options: Sequence[str]) -> Iterator[None]:
        for option in options:
            self._files.write("trace_options", option.encode())
        yield
        for option in reversed(options):
            back = option[2:] if option.startswith("no") else f"no{option}"
            self._files.write("trace_options", back.encode())

    def _write(self, path: str, text: str, flags: int) -> tuple[str | None, int]:
        try:
            with self._files.open(path, flags) as file:
                return None, file.write(text.encode("latin-1"))
        except OSError as error:
            return errno.errorcode[error.errno or 0], -1

    def _text(self, path: str) -> str:
        return self._files.read(path).decode("latin-1")

    def _format(self, name: str) -> str | None:
        try:
            return COMMON.sub("", self._text(f"events/{name}/format"))
        except OSError:  # a name that no directory can have
            return None

    def _logged(self) -> list[str]:
        """Return what the kernel has logged since this was asked last, of probes."""
        lines = []
        with contextlib.suppress(BlockingIOError):
            while entry := self._log.read(8192):
                lines.append(entry.decode("latin-1").partition(";")[2].split("\n")[0])
        lines = [ESCAPED.sub(lambda found: chr(int(found[1], 16)), line) for line in lines]
        return [POINTER.sub("0xHASHED", line) for line in lines if not OTHERS.match(line)]


def _rows(kind: str, series: str) -> list[Row]:
    return [json.loads(line) for line in (FIXTURES / kind / f"{series}.jsonl").read_text("ascii").splitlines()]


def _keep(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    print(path, len(data), flush=True)


def _lines(rows: Iterable[Row], *, blanks: bool = False) -> bytes:
    separators = (", ", ": ") if blanks else (",", ":")
    return b"".join(json.dumps(row, separators=separators).encode() + b"\n" for row in rows)


def _record(machine: Machine, series: str, like: str, kinds: Sequence[str], output: Path) -> None:
    guest = Recorded(machine)
    if "definitions" in kinds:
        rows = [guest.definition(row) for row in _rows("definitions", like)]
        _keep(output / "definitions" / f"{series}.jsonl", _lines(rows))
    if "filters" in kinds:
        _keep(output / "filters" / f"{series}.jsonl", _lines(guest.filters(_rows("filters", like)), blanks=True))
        _keep(output / "filters" / f"{series}.format", guest.filter_format().encode())
    if "triggers" in kinds:
        _keep(output / "triggers" / f"{series}.jsonl", _lines(guest.triggers(_rows("triggers", like))))
        guest = Recorded(machine)


def _record_traces(machine: Machine, series: str, output: Path) -> None:
    definitions = (FIXTURES / "early" / "4.9" / "01_types.kprobe_events").read_text().splitlines()
    guest = Recorded(machine)
    for name, data in [*guest.types(definitions), *guest.traces()]:
        _keep(output / "early" / series / name, data)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kernel")
    parser.add_argument("series")
    parser.add_argument("--like", default="4.19")
    parser.add_argument("--only", default="definitions,filters,triggers,traces")
    parser.add_argument("--output", type=Path, default=FIXTURES)
    asked = parser.parse_args(arguments)
    kinds = asked.only.split(",")
    # triggers leave the tracer off or on, so traces are of a guest of their own
    with Machine(asked.kernel, cpus=1, progress=lambda line: print(line, file=sys.stderr)) as machine:
        _record(machine, asked.series, asked.like, kinds, asked.output)
    if "traces" in kinds:
        with Machine(asked.kernel, cpus=2) as machine:
            _record_traces(machine, asked.series, asked.output)


if __name__ == "__main__":
    main(sys.argv[1:])
