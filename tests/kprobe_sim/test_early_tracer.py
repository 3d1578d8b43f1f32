"""The tracer on kernels before 5.10: it looks at what is there, and shows what perf-tools' author saw."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from typing import Any

import pytest

from kprobe import Tracer
from kprobe.errors import KprobeError, Unsupported
from kprobe_sim import SimulatedKernel, Task
from kprobe_sim.kernel.activity import load
from kprobe_text.text import StackTrace

from .recorded_on import recorded_on

SERIES = ("3.2", "3.13", "4.4", "4.19")


@pytest.mark.parametrize("series", SERIES)
def test_opens_are_traced_with_a_filter(series: str) -> None:
    kernel = SimulatedKernel(series)
    definition = "p:myopen do_sys_open filename=+0(%si):string"
    with Tracer(kernel.tracefs).trace(definition, filter='filename ~ "/etc/*"') as trace:
        load("opens").play(kernel)
        trace.stop()
        events = list(trace)
    assert [(event.task, event.pid, event.fields["filename"]) for event in events] == [
        ("cat", 2841, "/etc/ld.so.cache"),
        ("cat", 2841, "/etc/hostname"),
        ("cron", 611, "/etc/crontab"),
    ]
    assert kernel.tracefs.read("kprobe_events") == b""


@pytest.mark.parametrize(
    ("series", "place", "value"),
    [
        ("3.2", "sys_openat+0x11/0x20 <- do_sys_open", "arg1=fffffffffffffffe"),
        ("3.13", "system_call_fastpath+0x16/0x1b <- do_sys_open", "arg1=fffffffffffffffe"),
        ("4.4", "entry_SYSCALL_64_fastpath+0x12/0x66 <- do_sys_open", "arg1=0xfffffffffffffffe"),
        ("4.19", "__x64_sys_openat+0x1f/0x30 <- do_sys_open", "arg1=0xfffffffffffffffe"),
    ],
)
def test_a_return_shows_its_caller_and_the_number_as_the_kernel_prints_it(series: str, place: str, value: str) -> None:
    kernel = SimulatedKernel(series)
    kernel.tracefs.write("kprobe_events", b"r:myopen do_sys_open $retval\n")
    kernel.tracefs.write("events/kprobes/myopen/enable", b"1")
    load("opens").play(kernel)
    last = kernel.tracefs.read("trace").decode().splitlines()[-1]
    assert last.endswith(f": myopen: ({place}) {value}")
    assert last.startswith("            cron-611   [000] ")


@pytest.mark.parametrize("series", SERIES)
def test_a_refusal_has_the_errno_and_the_kernels_log_has_the_reason(series: str) -> None:
    kernel = SimulatedKernel(series)
    with pytest.raises(KprobeError) as refused, Tracer(kernel.tracefs).trace("p:myopen do_sys_open a=%zz"):
        pass
    assert "EINVAL" in str(refused.value)
    source = "trace_kprobe: " if series == "4.19" else ""
    assert kernel.probes.printed == [f"{source}Parse error at argument[0]. ({-errno.EINVAL})"]


@pytest.mark.parametrize("series", SERIES)
def test_records_of_a_removed_probe_are_of_unknown_type(series: str) -> None:
    kernel = SimulatedKernel(series)
    kernel.tracefs.write("kprobe_events", b"p:e do_sys_open\n")
    kernel.tracefs.write("events/kprobes/e/enable", b"1")
    number = int(kernel.tracefs.read("events/kprobes/e/id"))
    kernel.call("do_sys_open", task=Task(1, "init"))
    kernel.tracefs.write("events/kprobes/e/enable", b"0")
    kernel.tracefs.write("kprobe_events", b"-:e\n")
    assert kernel.tracefs.read("trace").decode().endswith(f": Unknown type {number}\n")


def test_there_are_no_instances_and_no_triggers_on_3_2() -> None:
    tracefs = SimulatedKernel("3.2").tracefs
    tracefs.write("kprobe_events", b"p:e do_sys_open\n")
    assert not tracefs.exists("instances")
    assert sorted(tracefs.listdir("events/kprobes/e")) == ["enable", "filter", "format", "id"]
    assert tracefs.read("trace_clock") == b"[local] global counter\n"


def walk(tracefs: Any, path: str = "") -> Iterator[str]:
    for name in tracefs.listdir(path):
        inner = f"{path}/{name}".lstrip("/")
        try:
            yield from walk(tracefs, inner)
        except NotADirectoryError:
            yield inner


@pytest.mark.parametrize("series", SERIES)
def test_every_file_can_be_read_or_refuses(series: str) -> None:
    """What wasn't recorded has an errno that no kernel gives there, and never another exception."""
    tracefs = recorded_on(series).tracefs
    tracefs.write("kprobe_events", b"p:e do_sys_open\n")
    if tracefs.exists("instances"):
        tracefs.mkdir("instances/one")
    refused = {}
    for path in walk(tracefs):
        if "trace_pipe" not in path and "raw" not in path and not path.endswith(("trace_marker", "free_buffer")):
            try:
                tracefs.read(path)
            except OSError as error:
                refused[path] = error.errno
    assert set(refused.values()) == {errno.ENOSYS}
    assert "dyn_ftrace_total_info" in refused
    assert not refused.keys() & {"README", "trace", "kprobe_events", "events/kprobes/e/format", "per_cpu/cpu1/stats"}
    tracefs.write("current_tracer", b"function")
    assert tracefs.read("current_tracer") == b"function\n"


@pytest.mark.parametrize(
    ("series", "notices", "caller"),
    [
        ("3.2", [], ""),
        (
            "3.13",
            ["instances have no options on this kernel: stacktrace is set for everybody while this lasts"],
            "system_call_fastpath",
        ),
        ("4.4", [], "entry_SYSCALL_64_fastpath"),
        ("4.19", [], "do_sys_open"),
    ],
)
def test_stacks_are_traced_and_the_option_is_put_back(series: str, notices: list[str], caller: str) -> None:
    kernel = SimulatedKernel(series)
    before = kernel.tracefs.read("trace_options")
    with Tracer(kernel.tracefs).trace("p:myopen do_sys_open", stacktrace=True, duration=0) as trace:
        load("opens").play(kernel)
        lines = trace.read_buffer().decode().splitlines()
        assert kernel.tracefs.read("options/stacktrace") == (b"1\n" if series in ("3.2", "3.13") else b"0\n")
    assert trace.notices == notices
    hits = sum(": myopen: (do_sys_open+" in line for line in lines)
    assert sum(": <stack trace>" in line for line in lines) == hits > 0
    assert ([line for line in lines if line.startswith(" => ")][:1] or [" => "]) == [f" => {caller}"]
    assert kernel.tracefs.read("trace_options") == before


def test_an_option_that_others_set_stays_set_on_a_kernel_whose_instances_have_none() -> None:
    kernel = SimulatedKernel("3.13")
    kernel.tracefs.write("trace_options", b"stacktrace")
    with Tracer(kernel.tracefs).trace("p:myopen do_sys_open", stacktrace=True, duration=0) as trace:
        pass
    assert trace.notices == []
    assert kernel.tracefs.read("options/stacktrace") == b"1\n"


def test_an_event_has_no_files_but_those_that_are_listed() -> None:
    tracefs = SimulatedKernel("3.13").tracefs
    tracefs.write("kprobe_events", b"p:e do_sys_open\n")
    with pytest.raises(FileNotFoundError):
        tracefs.write("events/kprobes/e/trigger", b"traceoff")


@pytest.mark.parametrize(
    ("words", "lacking"),
    [
        ({"raw": True}, "no raw pages (events/header_page: "),
        ({"cpus": [0]}, "no choice of CPUs (there is no tracing_cpumask)"),
        ({"buffer_size": 100}, "no choice of the buffers' size (there is no buffer_size_kb)"),
    ],
)
def test_what_a_kernel_of_2009_lacks_is_called_by_its_name(words: dict[str, Any], lacking: str) -> None:
    tracefs = SimulatedKernel("2009").tracefs
    with pytest.raises(Unsupported, match=re.escape(f"this kernel has {lacking}")):
        Tracer(tracefs).trace("p:myopen do_sys_open", **words).__enter__()
    assert tracefs.read("kprobe_events") == b""


@pytest.mark.parametrize("series", ["2.6.33", "3.2", "3.13"])
def test_raw_records_have_four_letters(series: str) -> None:
    kernel = SimulatedKernel(series)
    with Tracer(kernel.tracefs).trace("p:myopen do_sys_open dfd=%di", raw=True) as trace:
        load("opens").play(kernel)
        trace.stop()
        first = next(iter(trace))
    assert first.flags == "d..."


@pytest.mark.parametrize("series", ["2.6.33", "3.2", "3.13", "4.4"])
def test_sessions_share_a_mask_that_has_zeros_after_it(series: str) -> None:
    tracefs = SimulatedKernel(series).tracefs
    before = tracefs.read("tracing_cpumask")
    asked = {"top_level": True, "cpus": [1]}
    with Tracer(tracefs).trace("p:one do_sys_open", **asked), Tracer(tracefs).trace("p:two do_sys_open", **asked):
        assert tracefs.read("tracing_cpumask").startswith(b"2\n")
        assert b"o0_3=$stack" in tracefs.read("kprobe_events")
    assert tracefs.read("tracing_cpumask") == before


@pytest.mark.parametrize(
    ("series", "frames"),
    [
        ("4.9", ["do_sys_open", "do_syscall_64", "entry_SYSCALL_64_after_swapgs"]),
        ("4.14", ["do_sys_open", "do_syscall_64", "entry_SYSCALL_64_after_hwframe"]),
        ("4.19", ["do_sys_open", "do_syscall_64", "entry_SYSCALL_64_after_hwframe"]),
        ("5.4", ["do_sys_open", "do_syscall_64", "entry_SYSCALL_64_after_hwframe"]),
    ],
)
def test_stacks_of_opens_reach_the_system_call(series: str, frames: list[str]) -> None:
    """As recorded: fixtures/early, 03_opt_stacktrace; on 5.4, where a return probe ended them, by its chain."""
    kernel = SimulatedKernel(series)
    with Tracer(kernel.tracefs).trace("p:do_sys_open", stacktrace=True) as trace:
        load("opens").play(kernel)
        trace.stop()
        stacks = [[frame.text for frame in record.frames] for record in trace if isinstance(record, StackTrace)]
    assert stacks[0] == frames
