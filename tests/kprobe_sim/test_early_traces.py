"""Traces recorded on kernels before 5.10 with each option and clock, played again: the same text, to the byte.

Every line of a recording becomes the call that made it.  That a reschedule was pending, by chance, is left out, and so
are counts in the header where a recording was cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kprobe_sim import SimulatedKernel, Task
from kprobe_sim.machine.clock import TSC_KHZ

from . import played
from .played import Call
from .recorded_on import recorded_on

FIXTURES = Path(__file__).parents[2] / "fixtures"
TEXTS = {series: FIXTURES / "text" / series for series in ("3.2", "3.13", "4.4", "4.19")}
TEXTS |= {series: FIXTURES / "early" / series for series in ("4.9", "4.14", "4.19.108", "5.4")}
SERIES = ("3.2", "3.13", "4.4", "4.9", "4.14", "4.19", "4.19.108", "5.4")
FLAGS = {"3.2": "u32", "3.13": "u32", "4.4": "u32", "4.9": "x32", "4.14": "x32", "4.19": "x32", "5.4": "x32"}
FLAGS["4.19.108"] = FLAGS["4.19"]  # a guest; 4.19 is another build of it
HERE = "(?P<event>ent|ret): (?P<rest>.*)"
FORMS = [
    re.compile(form.encode())
    for form in (
        r"(?P<comm>.{16})-(?P<pid>\d+) +(?:\( *[\d-]+\) )?\[(?P<cpu>\d+)\](?: \( *[\d-]+\))?(?: \S{4}| ) +"
        rf"(?P<s>\d+)(?:\.(?P<us>\d+))?: {HERE}",
        r" *(?P<comm>.*?) +(?P<pid>\d+) +(?P<cpu>\d+) \d+ [0-9a-f]{8} [0-9a-f]{8} "
        rf"\[(?P<hex>[0-9a-f]+)\] .*?: {HERE}",
        rf" *(?P<comm>.*)-(?P<pid>\d+) +(?P<cpu>\d)\S{{4}} +(?P<us>\d+)(?:us.)?: {HERE}",
        HERE,
    )
]
ARGUMENT = re.compile(rb"(\w+)=(\".*?\"(?= flags=)|\(fault\)|\S+)")


def whole(series: str, rest: bytes, shown: list[int | str]) -> list[int | str]:
    """Return the call chain of which a stack was shown, from the caller on."""
    caller = re.match(rb"\((\S+) (?:<[0-9a-f]{16}> )?<- ", rest)
    if series in ("3.13", "4.4", "5.4") and caller is None:  # without frame pointers all that there is: the trampoline
        return ["kretprobe_trampoline+0x0"]
    if series in (
        "4.9",
        "4.14",
        "4.19",
        "5.4",
    ):  # the function, or at a return the trampoline, stands before what is above the caller
        shown = shown[1:]
    if series == "5.4" and caller is not None:  # this unwinder ends at the trampoline; the rest it leaves out
        shown = ["entry_SYSCALL_64_after_hwframe+0x5c"]
    return ["do_sys_open+0x1" if caller is None else caller[1].decode(), *shown]


def calls(text: bytes, series: str = "") -> Iterator[Call]:
    # the text of a path that is too long for the kernel's buffer lacks what follows it, its newline included
    text = re.sub(rb"(s=\"/tmp/L+\")( {11}plain-)", rb"\1 flags=8000\n\2", text)
    lines = re.sub(rb"(s=\"[^\"\n]*)\n(?=[^\"\n]*\" flags)", rb"\1\0", text).split(b"\n")
    stacks = b" => " in text or b"<stack trace>" in text
    for call in played.calls(lines, FORMS):
        comm = call.task.comm.lstrip(b" ") if isinstance(call.task.comm, bytes) else call.task.comm
        stack = tuple(whole(series, call.rest, list(call.stack))) if stacks else call.stack
        yield call._replace(task=Task(call.task.pid, comm), stack=stack)


def replay(kernel: SimulatedKernel, text: bytes) -> None:
    played.play(kernel, calls(text, kernel.profile.series), "do_sys_open", ARGUMENT)


def traced(series: str, options: list[str], clock: str = "local", *, tsc_khz: int = TSC_KHZ) -> SimulatedKernel:
    kernel = recorded_on(series, cpus=1 if series == "4.9" else 2, tsc_khz=tsc_khz)
    kernel.tracefs.write(
        "kprobe_events", f"p:ent do_sys_open dfd=%di:s32 s=+0(%si):string flags=%dx:{FLAGS[series]}".encode()
    )
    kernel.tracefs.write("kprobe_events", b"r:ret do_sys_open ret=$retval:s32 raw=$retval")
    kernel.tracefs.write("trace_clock", clock.encode())
    for option in options:
        kernel.tracefs.write("trace_options", option.encode())
    kernel.top.started = 0
    return kernel


def plain(text: bytes) -> list[bytes]:
    text = re.sub(rb"(\] [.d])[Nnp]", rb"\1.", text)
    text = re.sub(rb"^(.{16,20} \d[.d])[Nnp]", rb"\1.", text, flags=re.MULTILINE)
    return [
        re.sub(rb" CPU#\d \|", b" CPU#N |", line)
        for line in text.split(b"\n")
        if not line.startswith((b"# entries-in-buffer", b"# latency:"))
    ]


def recorded(series: str, name: str) -> bytes:
    return (TEXTS[series] / f"{name}.trace").read_bytes()


OPTIONS = [
    *("sym-addr", "noirq-info", "record-tgid", "record-tgid,noirq-info", "latency-format", "norecord-cmd"),
    *("latency-format,noirq-info", "nocontext-info", "verbose"),
]


@pytest.mark.parametrize(
    ("series", "options"),
    [(s, o) for s in SERIES for o in OPTIONS if (TEXTS[s] / f"03_opt_{o}.trace").exists()],
)
def test_an_option(series: str, options: str) -> None:
    text = recorded(series, f"03_opt_{options}")
    if "latency" in options:  # what is after the last line, which was cut off, tells its mark
        text = text[: text.rindex(b"\n", 0, -1) + 1]
    kernel = traced(series, [] if options == "norecord-cmd" else options.split(","))
    replay(kernel, recorded(series, f"03_opt_{options}"))
    if options == "norecord-cmd":  # the tasks were known from before
        kernel.tracefs.write("trace_options", options.encode())
    shown = kernel.tracefs.read("trace")
    if "latency" in options:
        shown = shown[: shown.rindex(b"\n", 0, -1) + 1]
    assert plain(shown) == plain(text)


@pytest.mark.parametrize("series", SERIES)
def test_comms(series: str) -> None:
    text = recorded(series, "02_comms")
    kernel = traced(series, [])
    replay(kernel, text)
    assert plain(kernel.tracefs.read("trace")) == plain(text)


CLOCKS = ("local", "global", "perf", "mono", "mono_raw", "boot")


@pytest.mark.parametrize(
    ("series", "clock"),
    # nothing was traced on 3.2 after the first clock
    [
        (s, c)
        for s in SERIES
        for c in CLOCKS
        if (TEXTS[s] / f"04_clock_{c}.trace").exists() and (s, c) != ("3.2", "global")
    ],
)
def test_a_clock_in_both_formats(series: str, clock: str) -> None:
    text, latency = recorded(series, f"04_clock_{clock}"), recorded(series, f"04_clock_{clock}_latency")
    kernel = traced(series, [], clock)
    replay(kernel, text)
    assert plain(kernel.tracefs.read("trace")) == plain(text)
    first, relative = next(calls(text)), next(calls(latency))
    kernel.top.started = first.at - relative.at
    kernel.tracefs.write("trace_options", b"latency-format")
    numbers = rb" +\d+us(.):"  # distances were rounded from nanoseconds that the text doesn't have
    shown = [re.sub(numbers, rb" us\1:", line) for line in plain(kernel.tracefs.read("trace"))]
    wanted = [re.sub(numbers, rb" us\1:", line) for line in plain(latency)]
    assert shown[:-2] == wanted[:-2]


@pytest.mark.parametrize("series", ["3.13", "4.4", "4.19"])  # the others' began before their first event
def test_the_counter(series: str) -> None:
    text = recorded(series, "04_clock_counter")
    kernel = traced(series, [], "counter")
    replay(kernel, text)
    assert plain(kernel.tracefs.read("trace")) == plain(text)


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("options", ["raw", "hex"])
def test_unformatted_entries_but_for_ids(options: str, series: str) -> None:
    text = recorded(series, f"03_opt_{options}")
    kernel = traced(series, [options])
    form = rb"(\d+) (\d) (\d+) type" if options == "raw" else rb"(\w{8}) (\w{8}) (\w{16}) type"
    base = 10 if options == "raw" else 16
    kernel.tracefs.write("events/kprobes/ent/enable", b"1")
    for match in re.finditer(form, text):
        pid, cpu, stamp = (int(number, base) for number in match.groups())
        kernel.call("do_sys_open", task=Task(pid, "any"), returns=None, cpu=cpu, at=stamp)
    shown = re.sub(rb"type: \d+", b"type: N", kernel.tracefs.read("trace"))
    assert plain(shown.rstrip(b"\n")) == plain(re.sub(rb"type: \d+", b"type: N", text).rstrip(b"\n"))


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("options", ["stacktrace", "stacktrace,sym-addr", "stacktrace,sym-offset"])
def test_stacks(options: str, series: str) -> None:
    text = recorded(series, f"03_opt_{options}")
    text = text[: text.rindex(b"ent: ")]
    text = text[: text.rindex(b"\n") + 1]  # the last event may lack its end
    kernel = traced(series, options.split(","))
    replay(kernel, text)

    def unstamped(shown: bytes) -> list[bytes]:
        return plain(re.sub(rb"[0-9]+\.[0-9]+: <stack trace>", b"<stack trace>", shown))

    assert unstamped(kernel.tracefs.read("trace")) == unstamped(text)


@pytest.mark.parametrize(
    ("series", "count"), [("3.2", 18), ("3.13", 18), ("4.4", 18), ("4.9", 24), ("4.14", 24), ("4.19", 24), ("5.4", 24)]
)
def test_the_formats_of_all_types(series: str, count: int) -> None:
    kernel = recorded_on(series, cpus=1 if series == "4.9" else 2)
    kernel.tracefs.write("kprobe_events", (TEXTS[series] / "01_types.kprobe_events").read_bytes())
    assert kernel.tracefs.read("kprobe_events") == (TEXTS[series] / "01_types.kprobe_events").read_bytes()
    found = re.findall(rb"== (\S+)\n(.*?)(?=== |\Z)", (TEXTS[series] / "01_types.formats").read_bytes(), re.DOTALL)
    assert len(found) == count
    for path, text in found:
        shown = re.sub(rb"ID: \d+", b"ID: N", kernel.tracefs.read(path.decode()))
        assert shown == re.sub(rb"ID: \d+", b"ID: N", text)


@pytest.mark.parametrize("series", SERIES)
def test_a_mark(series: str) -> None:
    text = recorded(series, "07_marker")
    line = next(line for line in text.splitlines() if line.endswith(b"tracing_mark_write: hello"))
    kernel = recorded_on(series, cpus=1 if series == "4.9" else 2)
    kernel.tasks[1] = Task(1, "init")
    kernel.tracefs.write("trace_marker", b"hello")
    shown = kernel.tracefs.read("trace").splitlines()[-1]

    def timeless(mark: bytes) -> bytes:
        return re.sub(rb"^ *\S+-\d+ +\[\d+\]| +[0-9.]+:", b"", mark)

    assert timeless(shown) == timeless(line)


@pytest.mark.parametrize("series", ["3.13", "4.4", "4.19"])  # of the others it wasn't recorded like that
def test_the_function_tracer_beside_probes(series: str) -> None:
    text = recorded(series, "10_function")
    kernel = traced(series, [])
    kernel.tracefs.write("set_ftrace_filter", b"do_sys_open")
    kernel.tracefs.write("current_tracer", b"function")
    kernel.tracefs.write("events/kprobes/enable", b"1")
    made = list(calls(text, series))
    for entry, left in zip(made[::2], made[1::2], strict=True):
        values = dict(ARGUMENT.findall(entry.rest + b" " + left.rest))
        caller = re.match(rb"\((\S+)", left.rest)
        assert caller is not None
        kernel.call(
            "do_sys_open",
            task=entry.task,
            args=(int(values[b"dfd"]) & 0xFFFFFFFF, values[b"s"][1:-1], int(values[b"flags"], 16)),
            returns=int(values[b"raw"], 16),
            caller=caller[1].decode(),
            cpu=entry.cpu,
            at=entry.at,
            duration=left.at - entry.at,
        )

    def unstamped(shown: bytes) -> list[bytes]:  # a function is seen a little before the probe at its entry
        return plain(re.sub(rb"[0-9]+\.[0-9]+: (\S+ <-)", rb"\1", shown))

    assert unstamped(kernel.tracefs.read("trace")) == unstamped(text)
