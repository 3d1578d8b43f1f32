"""What the tracer function_graph shows, as guests of 5.10 to 7.3 did: the same records in seven sets of options.

The records are those of the text with times, tasks and CPUs; the flags are those of the text in latency-format.  All
others show the same records, and so does the simulator, to the byte.  Events are made by calls of the probed function.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import pytest

from kprobe_corpus.traces import entries
from kprobe_sim import SimulatedKernel, Task

CORPUS = Path(__file__).parents[2] / "distributions" / "kprobe-corpus" / "src" / "kprobe_corpus_data"
KERNELS = ("5.10", "6.1", "6.12", "6.16", "6.17", "6.18", "6.19", "7.0", "7.1", "7.2", "7.3")
TIMED = ("funcgraph-abstime", "funcgraph-proc")
VARIANTS: tuple[tuple[str, ...], ...] = (
    (),
    ("funcgraph-tail",),
    ("funcgraph-proc",),
    TIMED,
    ("latency-format",),
    ("nofuncgraph-cpu",),
    ("nofuncgraph-overhead",),
)
COLUMN = rb"[ +!#*@$] (?:(?P<whole>\d+)\.(?P<ns>\d+) us +| {12})\|  (?P<rest>(?P<indent> *)(?P<what>.*?))\n"
LINE = re.compile(rb" *(\d+)\.(\d{6}) \|   (?P<cpu>\d)\)  *(?P<comm>[^|]*?)-(?P<pid>\d+) +\| " + COLUMN)
FLAGGED = re.compile(rb" \d\)  (?P<letters>\S+) \| " + COLUMN)
ENT = re.compile(rb'/\* ent: \(\S+\) dfd=(-?\d+) s="?(.*?)"? how=0x([0-9a-f]+) \*/')
RET = re.compile(rb"/\* ret: \((\S+) <- do_sys_openat2\) ret=-?\d+ raw=0x([0-9a-f]+) \*/")
NEED = {".": 0, "n": 0x04, "p": 0x20, "N": 0x24, "l": 0x02, "b": 0x06, "L": 0x22, "B": 0x26}
KIND = {".": 0, "h": 0x08, "s": 0x10, "H": 0x18}


class Line(NamedTuple):
    task: Task
    cpu: int
    at: int
    duration: int
    depth: int
    what: bytes
    context: tuple[int, int]


@lru_cache(maxsize=1)
def texts(kernel: str) -> dict[str, tuple[bytes, bytes]]:
    """Return the texts that a guest gave, by name, and the definitions of its probes."""
    found = entries([kernel], ["graph*"], directory=None)
    return {one.name: (one.text, one.files["kprobe_events"]) for one in found}


def context(letters: str) -> tuple[int, int]:
    """Return flags and preemption depth of the irq-info."""
    depths = [int(letter, 16) if letter != "." else 0 for letter in letters[3:]]
    return (letters[0] == "d") | NEED[letters[1]] | KIND[letters[2]], sum(
        depth << 4 * place for place, depth in enumerate(depths)
    )


def body(text: bytes) -> bytes:
    return re.sub(rb"\A(#.*\n)*", b"", text)


def lines(timed: bytes, flagged: bytes) -> list[Line]:
    shown = [match["letters"].decode() for match in FLAGGED.finditer(body(flagged))]
    found = []
    for number, match in enumerate(LINE.finditer(body(timed))):
        at = (int(match[1]) * 1_000_000 + int(match[2])) * 1000 + number % 1000
        comm = match["comm"]
        task = Task(int(match["pid"]), comm, known=comm != b"<...>")
        duration = int(match["whole"]) * 1000 + int(match["ns"].ljust(3, b"0")) if match["whole"] else 0
        depth = len(match["indent"]) // 2
        found.append(Line(task, int(match["cpu"]), at, duration, depth, match["what"], context(shown[number])))
    assert len(found) == len(shown)
    return found


def play(kernel: SimulatedKernel, made: Sequence[Line]) -> None:
    """Put the records of lines into the buffer: those of calls as the tracer does, events by calls that hit them."""
    forms, top = kernel.top.tracing.graph_records, kernel.top
    inside: dict[tuple[int, int], int] = {}
    for line in made:
        pid = line.task.pid
        kernel.machine.cmdlines.save(line.task) if line.task.known else kernel.machine.cmdlines.forget(line.task)
        if line.what.startswith(b"/*"):
            kernel.tracefs.write("set_event", b"!kprobes:")
            kernel.tracefs.write(f"events/kprobes/{line.what[3:6].decode()}/enable", b"1")
            kernel.tracefs.write("set_ftrace_notrace", b"do_sys_openat2")
            words = {"task": line.task, "cpu": line.cpu, "at": line.at, "context": line.context}
            if values := ENT.fullmatch(line.what):
                args = (int(values[1]) & 0xFFFFFFFF, values[2], int(values[3], 16))
                kernel.call("do_sys_openat2", args=args, returns=None, **words)  # type: ignore[arg-type]
            elif left := RET.fullmatch(line.what):
                value, caller = int(left[2], 16), left[1].decode()
                kernel.call("do_sys_openat2", returns=value, caller=caller, duration=0, **words)  # type: ignore[arg-type]
            else:
                raise AssertionError(line.what)
            continue
        name = re.match(rb"\w+", line.what)
        if name is not None:
            function = kernel.symbols.lookup(name[0].decode())[0].address
            top.write(line.cpu, forms.entry(line.context, pid, function, line.depth), line.at)
            inside[line.cpu, line.depth] = function
        if line.duration:
            named = re.search(rb"/\* (\w+) \*/", line.what)  # whose entry isn't in the buffer
            function = kernel.symbols.lookup(named[1].decode())[0].address if named else inside[line.cpu, line.depth]
            times = line.at - line.duration, line.at
            top.write(line.cpu, forms.returned(line.context, pid, function, line.depth, 0, times), line.at)


@pytest.mark.slow
@pytest.mark.parametrize("series", KERNELS)
def test_records_in_seven_sets_of_options(series: str) -> None:
    found = texts(series)
    timed, definitions = found["graph." + ".".join(TIMED)]
    made = lines(timed, found["graph.latency-format"][0])
    assert len(made) > 100
    kernel = SimulatedKernel(series, cpus=4)
    tracefs = kernel.tracefs
    tracefs.write("kprobe_events", definitions)
    tracefs.write("current_tracer", b"function_graph")
    play(kernel, made)
    for options in VARIANTS:
        for option in options:
            tracefs.write("trace_options", option.encode())
        text = found[".".join(["graph", *options])][0]
        shown = tracefs.read("trace")
        assert re.sub(rb" CPU#\d \|", b"", shown) == re.sub(rb" CPU#\d \|", b"", text), options
        for option in options:
            tracefs.write("trace_options", (option[2:] if option.startswith("no") else f"no{option}").encode())


TEXTS = Path(__file__).parents[2] / "fixtures" / "text"
OPENED = re.compile(
    rb" (?P<cpu>\d)\) +\|  (?:do_sys_openat2\(\) \{\n \d\) +\|  )?/\* ent: \(\S+\) dfd=-100 "
    rb's="(?P<path>[^"]*)" flags=0x(?P<flags>\w+) \*/\n(?: \d\) . (?P<leaf>[\d.]+) us +\|  do_sys_openat2\(\);\n)?'
    rb" \d\) +\|  /\* ret: \((?P<caller>\S+) <- do_sys_openat2\) ret=(?P<ret>-?\d+) raw=\S+ \*/\n"
    rb"(?: \d\) . (?P<call>[\d.]+) us +\|  \}\n)?"
)


def opens(series: str) -> SimulatedKernel:
    """Return a kernel whose tracer came after the probes on opens."""
    kernel = SimulatedKernel(series, cpus=2)
    kernel.tracefs.write(
        "kprobe_events", b"p:ent do_sys_openat2 dfd=%di:s32 s=+0(%si):string flags=%dx:x32\n", truncate=True
    )
    kernel.tracefs.write("kprobe_events", b"r:ret do_sys_openat2 ret=$retval:s32 raw=$retval\n")
    kernel.tracefs.write("events/kprobes/enable", b"1")
    kernel.tracefs.write("current_tracer", b"function_graph")
    return kernel


@pytest.mark.parametrize("series", ["5.10", "6.1", "6.12", "7.2"])
def test_a_tracer_that_came_after_the_probes(series: str) -> None:
    """Since 5.16 it sees a function before they do, and its return after them."""
    text = (TEXTS / series / "10_fgraph_.trace").read_bytes()
    kernel = opens(series)
    found = list(OPENED.finditer(text))
    assert b"".join(match[0] for match in found) == body(text)
    for number, match in enumerate(found, 1):
        kernel.call(
            "do_sys_openat2",
            args=(-100, match["path"], int(match["flags"], 16)),
            returns=int(match["ret"]),
            caller="__x64_sys_openat",
            cpu=int(match["cpu"]),
            at=number * 1_000_000_000,
            duration=int((match["leaf"] or match["call"]).replace(b".", b"")),
        )
    assert kernel.tracefs.read("trace") == text


FLAGS = re.compile(rb"(?m)^ +[\d.]+ \| +init-1 +\|  [.][.N]([.\d]+) \|.*?\|  (?:/\* )?(ent|ret|do_|\})")


@pytest.mark.parametrize("series", ["6.1", "6.12", "7.2"])
def test_flags_where_the_tracer_came_after_the_probes(series: str) -> None:
    recorded = FLAGS.findall((TEXTS / series / "10_fgraph_latency-format.trace").read_bytes())[:4]
    kernel = opens(series)
    for option in ("funcgraph-proc", "funcgraph-abstime", "nofuncgraph-cpu", "latency-format"):
        kernel.tracefs.write("trace_options", option.encode())
    kernel.call("do_sys_openat2", task=Task(1, "init"), args=(-100, "/x", 0), caller="__x64_sys_openat")
    assert FLAGS.findall(kernel.tracefs.read("trace")) == recorded
    assert len(recorded) == 4


BLOCK = re.compile(
    rb"(?P<cpu> \d\) )[^\n]*/\* ent: \(\S+\) dfd=-100 s=\"(?P<path>[^\"]*)\" how=0x(?P<how>\w+) \*/\n"
    rb"(?P<calls>(?:(?P=cpu)(?![^\n]*/\*)[^\n]*\n)+)(?P=cpu)"
    rb"[^\n]*/\* ret: \((?P<caller>\S+) <- \S+ ret=\d+ raw=0x(?P<raw>\w+) \*/\n"
)


@pytest.mark.slow
@pytest.mark.parametrize("series", KERNELS)
def test_an_open_with_its_calls_and_probes(series: str) -> None:
    """The tracer came before the probes; the whole is one call, with what is within it."""
    text, definitions = texts(series)["graph.latency-format"]
    match = BLOCK.search(body(text))
    assert match is not None
    calls = [(FLAGGED.fullmatch(line), line) for line in match["calls"].splitlines(keepends=True)]
    kernel = SimulatedKernel(series, cpus=4)
    kernel.tracefs.write("kprobe_events", definitions)
    for function in ("do_sys_openat2", "getname", "getname_flags", "do_filp_open", "path_openat"):
        with contextlib.suppress(OSError):  # not all kernels have all of them
            kernel.tracefs.write("set_ftrace_filter", function.encode())
    kernel.tracefs.write("current_tracer", b"function_graph")
    kernel.tracefs.write("trace_options", b"latency-format")
    kernel.tracefs.write("events/kprobes/enable", b"1")
    cpu, task = int(match["cpu"].strip(b" )")), Task(42, "any")
    now = 1_000_000_000

    def duration(line: re.Match[bytes]) -> int:
        return int(line["whole"]) * 1000 + int(line["ns"])

    def play_from(place: int) -> int:
        """Make the call of a line, with those within it; return the place after it."""
        nonlocal now
        line = calls[place][0]
        assert line is not None
        words = {"task": task, "cpu": cpu, "at": now}
        if not line["indent"]:
            words |= {"caller": match["caller"].decode(), "returns": int(match["raw"], 16)}
            words["args"] = (-100, match["path"], int(match["how"], 16))
        name = re.match(rb"\w+", line["what"])
        assert name is not None
        end = place
        if not line["whole"]:
            end = next(
                later
                for later in range(place + 1, len(calls))
                if (one := calls[later][0]) is not None and one["what"] == b"}" and one["indent"] == line["indent"]
            )
        last = calls[end][0]
        assert last is not None
        finish = now + duration(last)

        def within() -> None:
            nonlocal now
            after = place + 1
            while after < end:
                now += 10
                after = play_from(after)

        kernel.call(name[0].decode(), duration=duration(last), within=within, **words)  # type: ignore[arg-type]
        now = finish
        return end + 1

    assert play_from(0) == len(calls)
    assert body(kernel.tracefs.read("trace")) == match[0]
    assert b"() {" in match[0]


NESTED = b"""\
 0)               |  do_sys_openat2() {
 0) + 12.078 us   |    getname_flags();
 0)               |    path_openat() {
 0)               |      /* vo: (vfs_open+0x4/0xf0) */
 0) + 28.122 us   |      vfs_open();
 0) + 93.509 us   |    }
 (Overruns: 0)
 0) ! 138.506 us  |  }
 (Overruns: 0)
"""


def nested(kernel: SimulatedKernel) -> None:
    """Make the calls as a guest of 7.2.13 did."""
    kernel.tracefs.write("kprobe_events", b"p:vo vfs_open")
    kernel.tracefs.write("current_tracer", b"function_graph")
    kernel.tracefs.write("events/kprobes/enable", b"1")
    kernel.tracefs.write("options/funcgraph-overrun", b"1")

    def within() -> None:
        kernel.call("getname_flags", at=1_010_000, duration=12_078)
        kernel.call("path_openat", at=1_030_000, duration=93_509, within=open_file)

    def open_file() -> None:
        kernel.call("vfs_open", at=1_040_000, duration=28_122)

    kernel.call("do_sys_openat2", at=1_000_000, duration=138_506, within=within)


def test_calls_within_each_other() -> None:
    kernel = SimulatedKernel("7.2", cpus=1)
    nested(kernel)
    assert body(kernel.tracefs.read("trace")) == NESTED
    with kernel.tracefs.stream("trace_pipe") as pipe:
        assert pipe.read(0) == NESTED


def test_the_greatest_depth() -> None:
    kernel = SimulatedKernel("7.2", cpus=1)
    kernel.tracefs.write("max_graph_depth", b"2")
    nested(kernel)
    assert body(kernel.tracefs.read("trace")) == NESTED.replace(b" 0) + 28.122 us   |      vfs_open();\n", b"")


def test_a_call_whose_entry_wasnt_seen_is_named() -> None:
    """As a guest of 7.2.13 showed it, when the buffer had been emptied within the call."""
    kernel = SimulatedKernel("7.2", cpus=1)
    kernel.tracefs.write("current_tracer", b"function_graph")
    empty = lambda: kernel.tracefs.write("trace", b"", truncate=True)  # noqa: E731
    kernel.call("do_sys_openat2", at=1_000_000, duration=6_278_835, within=empty)
    assert body(kernel.tracefs.read("trace")) == b" 0) # 6278.835 us |  } /* do_sys_openat2 */\n"


def test_a_function_that_begins_with_endbr() -> None:
    """A guest of 6.12.117 shows where ftrace calls from."""
    kernel = SimulatedKernel("6.12", cpus=1)
    kernel.tracefs.write("current_tracer", b"function")
    kernel.tracefs.write("trace_options", b"sym-offset")
    kernel.call("getname", caller="do_sys_openat2+0x7c")
    assert kernel.tracefs.read("trace").endswith(b": getname+0x4/0x50 <-do_sys_openat2+0x7c/0xe0\n")


def test_what_isnt_known_is_refused() -> None:
    kernel = SimulatedKernel("7.2")
    kernel.tracefs.mkdir("instances/one")
    kernel.tracefs.write("instances/one/current_tracer", b"function_graph")
    with pytest.raises(OSError, match="Function not implemented"):
        kernel.tracefs.read("instances/one/trace")
    kernel.tracefs.write("current_tracer", b"function_graph")
    kernel.tracefs.write("trace_options", b"funcgraph-args")
    with pytest.raises(OSError, match="Function not implemented"):
        kernel.tracefs.read("trace")
    old = SimulatedKernel("3.1").tracefs
    old.write("current_tracer", b"function_graph")
    with pytest.raises(OSError, match="Function not implemented"):
        old.read("trace")


@pytest.mark.parametrize(
    ("chosen", "shown"),
    [
        ({}, ["do_sys_openat2() {", "  path_openat() {", "    vfs_open();", "  }", "}"]),
        ({"set_graph_function": b"path_openat"}, ["path_openat() {", "  vfs_open();", "}"]),
        ({"set_graph_notrace": b"path_openat"}, ["do_sys_openat2();"]),
        ({"max_graph_depth": b"1"}, ["do_sys_openat2();"]),
        ({"set_graph_function": b"path_openat", "max_graph_depth": b"1"}, ["path_openat();"]),
        ({"set_graph_notrace": b"vfs_open"}, ["do_sys_openat2() {", "  path_openat();", "}"]),
        ({"set_graph_function": b"do_sys_openat2", "set_graph_notrace": b"path_openat"}, ["do_sys_openat2();"]),
        ({"set_ftrace_notrace": b"path_openat"}, ["do_sys_openat2() {", "  vfs_open();", "}"]),
    ],
)
@pytest.mark.parametrize("series", ["5.10", "6.12", "7.2"])
def test_functions_that_are_chosen(series: str, chosen: dict[str, bytes], shown: list[str]) -> None:
    """As guests of 5.10.262, 6.12.117 and 7.2.13 showed them, but for set_ftrace_notrace."""
    kernel = SimulatedKernel(series)
    kernel.tracefs.write("current_tracer", b"function_graph")
    for path, value in chosen.items():
        kernel.tracefs.write(path, value)

    def find() -> None:
        kernel.call("path_openat", within=lambda: kernel.call("vfs_open"))

    kernel.call("do_sys_openat2", within=find)
    text = body(kernel.tracefs.read("trace")).decode()
    assert [line.partition("|  ")[2] for line in text.splitlines()] == shown


def test_a_call_that_doesnt_return() -> None:
    kernel = SimulatedKernel("7.2")
    kernel.tracefs.write("current_tracer", b"function_graph")
    kernel.call("do_sys_openat2", returns=None)
    kernel.call("path_openat", at=20_000_000_000, duration=5_000)
    assert body(kernel.tracefs.read("trace")) == (
        b" 0)               |  do_sys_openat2() {\n 0)   5.000 us    |  path_openat();\n"
    )


def test_calls_of_tasks_that_are_filtered() -> None:
    kernel = SimulatedKernel("7.2")
    kernel.tracefs.write("current_tracer", b"function_graph")
    kernel.tracefs.write("set_ftrace_pid", b"42")
    kernel.call("path_openat", task=Task(41, "one"))
    kernel.call("vfs_open", task=Task(42, "two"))
    assert b"path_openat" not in kernel.tracefs.read("trace")
    assert b"vfs_open();" in kernel.tracefs.read("trace")
