"""A guest whose ring buffer is filled and then read, as text and as raw pages."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from kprobe_vm.guest.workload import GuestWorkload
from kprobe_vm.machine.machine import Machine
from kprobe_vm.recording.functions import functions
from kprobe_vm.traces.account import confirmed
from kprobe_vm.traces.activity import CALLS, LOST, PLAIN, Done, Task, named, numbers, opens, perform
from kprobe_vm.traces.columns import CodePlaces, Columns
from kprobe_vm.traces.graph import ENTRY, EXIT, graph_of
from kprobe_vm.traces.pages import PAGE, Event, RawRecord, events, records
from kprobe_vm.traces.truth import Truth, in_order, piped, started, truth_of

CPUS = 4
# options that change how existing records are printed, first those tried with all task names; of those that a
# kernel lacks, no text is made
OF_ALL = ("noirq-info", "nocontext-info", "latency-format", "latency-format,verbose", "record-tgid")
OF_SOME = (
    "verbose", "raw", "hex", "bin", "latency-format,noirq-info", "sym-offset", "sym-addr", "sym-offset,sym-addr",
    "record-tgid,noirq-info", "nohash-ptr", "noannotate", "noprint-parent",
)  # fmt: skip
# not text options: they change what is recorded or when, or a reader's waiting
APART = (
    "block", "trace_printk", "trace_printk_dest", "copy_trace_marker", "markers", "event-fork", "pause-on-trace",
    "function-trace", "function-fork", "display-graph", "stacktrace", "userstacktrace", "test_nop_accept", "overwrite",
    "test_nop_refuse", "record-cmd", "disable_on_free", "printk-msg-only", "sym-userobj", "bitmask-list",
)  # fmt: skip
FTRACE = ("print", "kernel_stack", "user_stack", "raw_data", "function", ENTRY, EXIT)
STATIC = ("sched/sched_switch", "sched/sched_waking", "sched/sched_process_fork")
MARKERS = (
    b"hello\n", b"no newline", b"two\nlines\n", b'tab\there "q" \\ %s\n', b"\xc3\xa4\xff\x01x\n", b" blanks  \n",
    b"   ent: (do_sys_openat2+0x0/0x10) fake\n", b"# tracer: nop\n", b"CPU:1 [LOST 5 EVENTS]\n", b"=> frame\n",
    b" sh-1     [000] ....     1.000000: ent: (f+0x0/0x1) a=1\n", b"tracing_mark_write: twice\n", b"B|7|name\n",
)  # fmt: skip
RAW_MARKER = (7).to_bytes(4, "little") + b"abcdefgh"


class GuestText(NamedTuple):
    """A text and all that is known about it."""

    name: str
    options: tuple[str, ...]
    clock: str
    text: bytes
    truth: list[Truth]
    settled: int  # records that the tasks' account confirms
    formats: dict[str, str]
    definitions: list[str]
    defects: tuple[str, ...]
    reads: tuple[int, ...] = ()  # how many bytes each read(2) of trace_pipe returned, where that matters
    lacks: tuple[str, ...] = ()  # what this kernel can't record, unlike others


class Recorded(NamedTuple):
    """What was recorded at one time: the records, the columns that their text has, the acts of the tasks, the clock."""

    records: list[RawRecord]
    columns: Columns
    done: Sequence[Done]
    clock: str


class Recorder:
    """A guest whose ring buffer is filled and read."""

    def __init__(self, guest: Machine) -> None:
        self._guest = guest
        self._files = guest.tracefs
        kallsyms = guest.files.read("proc/kallsyms").decode()
        self._symbols = CodePlaces(kallsyms)
        self.functions = functions(kallsyms)
        self._has = self._files.read("trace_options").decode().split()
        self.clocks = self._files.read("trace_clock").decode().replace("[", "").replace("]", "").split()
        self.definitions: list[str] = []
        self._formats: dict[str, str] = {}
        self._known: dict[int, Event] = {}
        self._plain_functions = False
        self.tracers = self._read("available_tracers").split()
        self.calls = [path for path in CALLS if self._files.exists(f"events/{path}/format")]
        self.lacks = tuple(
            [name for name in ("function", "function_graph") if name not in self.tracers]
            + ["syscalls"] * (len(self.calls) < len(CALLS))
        )

    def define(self, definitions: Sequence[str]) -> None:
        """Define probes, by the kernel's own names of functions; one that it refuses is left out."""
        for definition in [named(definition, self.functions) for definition in definitions]:
            with contextlib.suppress(OSError):
                self._files.write("kprobe_events", definition.encode() + b"\n")
                self.definitions.append(definition)
        self._formats = {path: self._read(path) for path in map(_path, self.definitions)}
        names = (*(f"ftrace/{name}" for name in FTRACE), *STATIC, *self.calls)
        others = [path for name in names if self._files.exists(path := f"events/{name}/format")]
        self._known = events({**self._formats, **{path: self._read(path) for path in others}})

    def has(self, option: str) -> bool:
        """Whether the kernel has an option."""
        bare = option.removeprefix("no") if option not in self._has and f"no{option}" not in self._has else option
        return bare in self._has or f"no{bare}" in self._has

    def unknown(self) -> list[str]:
        """Return the kernel's unknown options, each in the state that it doesn't have."""
        known = {name.removeprefix("no") for option in (*OF_ALL, *OF_SOME) for name in option.split(",")}
        known |= {*APART, "fields", "context-info", "irq-info", "hash-ptr", "annotate", "print-parent"}
        return [
            name.removeprefix("no") if name.startswith("no") else f"no{name}"
            for name in self._has
            if name not in known and name.removeprefix("no") not in known
        ]

    @contextlib.contextmanager
    def set(self, options: Sequence[str]) -> Iterator[None]:
        """Set options, and unset them when the context ends."""
        try:
            for option in options:
                self._files.write("trace_options", option.encode())
            yield
        finally:
            for option in reversed(options):
                self._files.write("trace_options", (option[2:] if option.startswith("no") else f"no{option}").encode())

    def run(self, act: Callable[[], list[Done]], paths: Sequence[str]) -> list[Done]:
        """Record an activity while events are enabled, starting with an empty buffer."""
        self._files.write("tracing_on", b"0")
        self._files.write("trace", b"", truncate=True)
        for path in paths:
            self._files.write(f"events/{path}/enable", b"1")
        self._files.write("tracing_on", b"1")
        try:
            return act()
        finally:
            self._files.write("tracing_on", b"0")
            for path in paths:
                self._files.write(f"events/{path}/enable", b"0")

    def perform(self, names: Sequence[bytes] = PLAIN, *, types: bool = False) -> list[Done]:
        """Let tasks of these names perform their acts."""
        return self.do(opens(CPUS, names) + ([numbers()] if types else []))

    def do(self, tasks: Sequence[Task]) -> list[Done]:
        """Let tasks perform their acts."""
        return perform(lambda: GuestWorkload(self._guest), tasks)

    def keep(self, kilobytes: int) -> None:
        """Set the size of each CPU's buffer."""
        self._files.write("buffer_size_kb", str(kilobytes).encode())

    def filter(self, path: str, text: str) -> None:
        """Set an event's filter; an empty text removes it."""
        self._files.write(f"events/{path}/filter", (text or "0").encode())

    def stats(self, cpu: int) -> dict[str, int]:
        """Return the numbers of a CPU's buffer."""
        text = self._read(f"per_cpu/cpu{cpu}/stats")
        return {name: int(number) for name, number in re.findall(r"^([\w ]+): (\d+)$", text, re.M)}

    def pipe(self) -> bytes:
        """Read trace_pipe until it is empty."""
        text = b""
        with self._files.open("trace_pipe", os.O_RDONLY | os.O_NONBLOCK) as file, contextlib.suppress(BlockingIOError):
            while piece := file.read(1 << 16):
                text += piece
        return text

    def read(self, sizes: Sequence[int], times: int = 0) -> list[bytes]:
        """Read trace_pipe with these sizes in turn, `times` times or until it is empty."""
        pieces: list[bytes] = []
        with self._files.open("trace_pipe", os.O_RDONLY | os.O_NONBLOCK) as file, contextlib.suppress(BlockingIOError):
            while not times or len(pieces) < times:
                piece = file.read(sizes[len(pieces) % len(sizes)])
                if not piece:
                    break
                pieces.append(piece)
        return pieces

    def mark(self) -> list[Done]:
        """Write markers."""
        for text in MARKERS:
            self._files.write("trace_marker", text)
        if self._files.exists("trace_marker_raw"):
            self._files.write("trace_marker_raw", RAW_MARKER)
        return []

    def trace(self, options: Sequence[str] = ()) -> bytes:
        """Read the buffer as text, under options."""
        with self.set(options):
            return self._files.read("trace")

    def pages(self) -> list[RawRecord]:
        """Read the buffer as pages, which empties it."""
        raw: list[RawRecord] = []
        for cpu in range(CPUS):
            path = f"per_cpu/cpu{cpu}/trace_pipe_raw"
            with self._files.open(path, os.O_RDONLY | os.O_NONBLOCK) as file, contextlib.suppress(BlockingIOError):
                while page := file.read(PAGE):
                    raw += records(page, cpu)
        return in_order(raw)

    def recorded(self, done: Sequence[Done], text: bytes, clock: str = "local") -> Recorded:
        """Return what was recorded, which empties the buffer; `text` shows in its header which flags there are."""
        columns = self._columns(done, text, clock)
        return Recorded(self.pages(), columns, done, clock)

    def _columns(self, done: Sequence[Done], text: bytes, clock: str) -> Columns:
        comms = dict(_pairs(self._read("saved_cmdlines")))
        comms |= {one.pid: one.task.comm.decode("utf-8", "surrogateescape") for one in done if one.pid in comms}
        tgids = dict(_pairs(self._read("saved_tgids"))) if self._files.exists("saved_tgids") else {}
        letters = 5 if b"migrate-disable" in text else 4
        counts = clock in ("counter", "uptime", "x86-tsc")
        groups = {pid: int(tgid) for pid, tgid in tgids.items()}
        return Columns(self._symbols, comms, groups, letters, counts, self._plain_functions)

    def text(
        self, name: str, options: Sequence[str], text: bytes, recorded: Recorded, defects: Sequence[str] = (),
        *, complete: bool = True,
    ) -> GuestText:  # fmt: skip
        """Make the text with its truth."""
        records, columns, done, clock = recorded
        truth = [] if "bin" in options else list(truth_of(records, self._known, columns, options))
        settled = 0
        if truth and not {"raw", "hex", "nocontext-info"} & set(options):
            timed = [option for option in options if option != "latency-format"]  # whose truth has no times
            settled = confirmed(list(truth_of(records, self._known, columns, timed)), done, complete=complete)
        if not complete:
            truth = started(truth)
        used = {self._known[record.ident] for record in records}
        paths = {f"events/{event.group}/{event.name}/format" for event in used if event.group != "ftrace"}
        formats = {path: self._read(path) for path in sorted(paths)}
        definitions = [line for line in self.definitions if _path(line) in paths]
        return GuestText(
            name, tuple(options), clock, text, truth, settled, formats, definitions, tuple(defects), lacks=self.lacks
        )

    def graph(self, name: str, options: Sequence[str], text: bytes, recorded: Recorded) -> GuestText:
        """Make the text of tracer function_graph with its truth."""
        events = [record for record in recorded.records if not self._is_call(record)]
        plain = self.text(name, (), text, recorded._replace(records=events))
        truth = list(graph_of(recorded.records, self._known, recorded.columns, options))
        return plain._replace(options=tuple(options), truth=truth, defects=("function_graph",))

    def _is_call(self, record: RawRecord) -> bool:
        return self._known[record.ident].name in (ENTRY, EXIT)

    def torn(self, name: str, pieces: Sequence[bytes], truth: Sequence[Truth]) -> GuestText:
        """Make the text of reads of trace_pipe."""
        formats = {path: body for path, body in self._formats.items() if path == _path(LOST)}
        reads = tuple(len(piece) for piece in pieces)
        return GuestText(
            name, (), "local", b"".join(pieces), list(truth), len(truth), formats, [self._lost], ("torn reads",), reads
        )

    def piped(self, name: str, text: bytes, done: Sequence[Done], stats: Sequence[dict[str, int]]) -> GuestText:
        """Make the text of trace_pipe with its truth, by the account alone: trace_pipe has consumed the pages."""
        truth = piped(done, stats)
        formats = {path: body for path, body in self._formats.items() if path == _path(LOST)}
        events = sum(record["type"] == "event" for record in truth)
        return GuestText(name, (), "local", text, truth, events, formats, [self._lost], ("lost events",))

    @property
    def _lost(self) -> str:
        return named(LOST, self.functions)

    def learn_functions(self, shown: bytes) -> None:
        """Learn from a text with sym-offset how this kernel prints the function of a return probe."""
        self._plain_functions = f"<- {self.functions.opening})".encode() in shown

    def reset(self, clock: str) -> None:
        """Set the clock, which empties the buffer."""
        self._files.write("trace_clock", clock.encode())

    def tracer(self, name: str) -> None:
        """Set the tracer."""
        self._files.write("current_tracer", name.encode())

    def limit(self, functions: Sequence[str] = ()) -> None:
        """Limit the tracer to these functions, as far as the kernel has them; without any, lift the limit."""
        self._files.write("set_ftrace_filter", b"", truncate=True)
        for function in functions:
            with contextlib.suppress(OSError):
                self._files.write("set_ftrace_filter", function.encode())

    def offers(self, option: str) -> bool:
        """Whether the current tracer has this option."""
        return option.removeprefix("no") in self._files.listdir("options")

    def _read(self, path: str) -> str:
        return self._files.read(path).decode("utf-8", "surrogateescape")


def _path(definition: str) -> str:
    """Return the path of the format file of a definition's event."""
    group, _, name = re.split(r"[: ]", definition)[1].rpartition("/")
    return f"events/{group or 'kprobes'}/{name}/format"


def _pairs(text: str) -> Iterator[tuple[int, str]]:
    """Yield the rows of saved_cmdlines; a name with a newline gives none, but that of its first line."""
    for line in text.split("\n"):
        pid, blank, comm = line.partition(" ")
        if blank and pid.isdigit():
            yield int(pid), comm
