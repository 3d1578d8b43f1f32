"""The tracer function_graph beside probes, as 3.13, 4.4 and 4.19 recorded it: the whole text, to the byte.

Options were set one after the other, and stayed.  Each `do_sys_open();` stands between the events of its entry and its
return, which are comments.  Where no times are shown these three are one call.  Where they are, each is played at its
own time, as a call of the machine has one time for its entry; and where no CPU is shown, init is on CPU 1.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kprobe_sim import SimulatedKernel, Task

from .recorded_on import recorded_on
from .test_early_records import probed

FIXTURES = Path(__file__).parents[2] / "fixtures"
SERIES = ("3.13", "4.4", "4.19")
OPTIONS = (
    *("funcgraph-proc", "funcgraph-abstime", "funcgraph-irqs", "funcgraph-tail", "nofuncgraph-cpu"),
    "latency-format",
)
LINE = re.compile(
    rb"(?: +(?P<s>\d+)\.(?P<us>\d{6}) \|  )?(?: (?P<cpu>\d)\) )?(?: +(?P<comm>.*?)-(?P<pid>\d+) +\| )?(?: [.d]\.{3})?"
    rb"(?P<mark>[ +!#]) (?:(?P<whole>\d+)\.(?P<ns>\d{3}) us +| {12})\|  (?P<rest>.*)\n"
)
ENT = re.compile(rb'/\* ent: \(\S+\) dfd=(-?\d+) s="(.*)" flags=(\w+) \*/')
RET = re.compile(rb"/\* ret: \((\S+) <- do_sys_open\) ret=-?\d+ raw=(\w+) \*/")


class Line(NamedTuple):
    task: Task
    cpu: int
    at: int
    duration: int
    rest: bytes


def recorded(series: str, name: str) -> bytes:
    place = FIXTURES / "early" / series / f"{name}.trace"
    return (place if place.exists() else FIXTURES / "text" / series / f"{name}.trace").read_bytes()


def lines(text: bytes) -> Iterator[Line]:
    for number, match in enumerate(LINE.finditer(re.sub(rb"\A(#.*\n)*", b"", text))):
        at = (10 + number) * 1_000_000_000
        if match["s"]:
            at = (int(match["s"]) * 1_000_000 + int(match["us"])) * 1000
        task = Task(int(match["pid"]), match["comm"]) if match["pid"] else Task(7, "any")
        cpu = int(match["cpu"]) if match["cpu"] else int(task.pid == 1)
        duration = int(match["whole"]) * 1000 + int(match["ns"]) if match["whole"] else 0
        yield Line(task, cpu, at, duration, match["rest"])


def graphed(series: str) -> SimulatedKernel:
    kernel = recorded_on(series, cpus=2)
    probed(kernel, series)
    kernel.tracefs.write("current_tracer", b"function_graph")
    return kernel


def choose(kernel: SimulatedKernel, series: str, name: str) -> None:
    """Set the options as they were when a trace was recorded."""
    last = name.removeprefix("10_fgraph_")
    for option in OPTIONS[: OPTIONS.index(last) + 1] if last else ():
        if (series, option) == ("3.13", "funcgraph-tail"):
            with pytest.raises(OSError) as refused:
                kernel.tracefs.write("trace_options", option.encode())
            assert refused.value.errno == errno.EINVAL
        else:
            kernel.tracefs.write("trace_options", option.encode())


@pytest.mark.parametrize("name", ["10_fgraph_", "10_fgraph_funcgraph-proc"])
@pytest.mark.parametrize("series", SERIES)
def test_calls_between_their_probes(series: str, name: str) -> None:
    text = recorded(series, name)
    kernel = graphed(series)
    choose(kernel, series, name)
    kernel.tracefs.write("events/kprobes/enable", b"1")
    made = list(lines(text))
    assert len(made) >= 9
    for ent, called, ret in zip(made[::3], made[1::3], made[2::3], strict=True):
        values, left = ENT.fullmatch(ent.rest), RET.fullmatch(ret.rest)
        assert called.rest == b"do_sys_open();"
        assert values is not None
        assert left is not None
        kernel.call(
            "do_sys_open",
            task=ent.task,
            args=(int(values[1]) & 0xFFFFFFFF, values[2], int(values[3], 16)),
            returns=int(left[2], 16),
            caller=left[1].decode(),
            cpu=ent.cpu,
            at=ent.at,
            duration=called.duration,
        )
    assert kernel.tracefs.read("trace") == text


@pytest.mark.parametrize(
    "name",
    [
        *("10_fgraph_funcgraph-abstime", "10_fgraph_funcgraph-irqs", "10_fgraph_funcgraph-tail"),
        *("10_fgraph_nofuncgraph-cpu", "10_fgraph_latency-format"),
    ],
)
@pytest.mark.parametrize("series", SERIES)
def test_calls_and_events_by_their_times(series: str, name: str) -> None:
    text = recorded(series, name)
    kernel = graphed(series)
    choose(kernel, series, name)
    made = list(lines(text))
    assert len(made) == 15
    for line in made:
        event = line.rest[3:6].decode()
        is_event = line.rest.startswith(b"/*")
        kernel.tracefs.write("set_ftrace_notrace", b"do_sys_open" if is_event else b"", truncate=True)
        kernel.tracefs.write("set_event", b"!kprobes:")
        if is_event:
            kernel.tracefs.write(f"events/kprobes/{event}/enable", b"1")
        words = {"task": line.task, "cpu": line.cpu, "at": line.at}
        if values := ENT.fullmatch(line.rest):
            args = (int(values[1]) & 0xFFFFFFFF, values[2], int(values[3], 16))
            kernel.call("do_sys_open", args=args, returns=None, **words)  # type: ignore[arg-type]
        elif left := RET.fullmatch(line.rest):
            returns, caller = int(left[2], 16), left[1].decode()
            kernel.call("do_sys_open", returns=returns, caller=caller, duration=0, **words)  # type: ignore[arg-type]
        else:
            kernel.call("do_sys_open", duration=line.duration, **words)  # type: ignore[arg-type]
    assert kernel.tracefs.read("trace") == text


@pytest.mark.parametrize("series", SERIES)
def test_a_reader_who_consumes_sees_the_same_lines(series: str) -> None:
    text = recorded(series, "10_fgraph_")
    kernel = graphed(series)
    for line in lines(text):
        if line.duration:
            kernel.call("do_sys_open", task=line.task, cpu=line.cpu, at=line.at, duration=line.duration)
    with kernel.tracefs.stream("trace_pipe") as pipe:
        shown = pipe.read(0)
    assert shown == b"".join(line for line in text.splitlines(keepends=True) if b" us " in line)
    assert kernel.tracefs.read("trace") == re.match(rb"(#.*\n)*", text)[0]  # type: ignore[index]


ARROWS = b"""\
 0)               |  do_sys_open() {
 0)   ==========> |
 0)               |    do_IRQ() {
 0)   2.000 us    |      __do_softirq();
 0)   5.000 us    |    }
 0)   <========== |
 0) + 20.000 us   |  }
"""


def interrupted(series: str, option: str = "") -> bytes:
    """Let an interrupt come within a call, by the source: the recordings have none within calls."""
    kernel = recorded_on(series, cpus=1)
    kernel.add_function("__do_softirq")
    kernel.tracefs.write("current_tracer", b"function_graph")
    if option:
        kernel.tracefs.write("trace_options", option.encode())

    def soft() -> None:
        kernel.call("__do_softirq", at=1_006_000, duration=2_000, context=(0x09, 0))

    def interrupt() -> None:
        kernel.call("do_IRQ", at=1_005_000, duration=5_000, context=(0x09, 0), within=soft)

    kernel.call("do_sys_open", at=1_000_000, duration=20_000, within=interrupt)
    return re.sub(rb"\A(#.*\n)*", b"", kernel.tracefs.read("trace"))


@pytest.mark.parametrize("series", ["3.2", *SERIES])
def test_an_interrupt_within_a_call(series: str) -> None:
    assert interrupted(series) == ARROWS
    assert interrupted(series, "nofuncgraph-irqs") == b" 0) + 20.000 us   |  do_sys_open();\n"


@pytest.mark.parametrize(("series", "letters"), [("3.13", b""), ("4.4", b" d.h."), ("4.19", b" d.h.")])
def test_an_interrupt_in_latency_format(series: str, letters: bytes) -> None:
    lines = interrupted(series, "latency-format").splitlines()
    assert [line for line in lines if b"=" in line] == [
        b" 0) " + letters + b"  ==========> |",
        b" 0) " + letters + b"  <========== |",
    ]
