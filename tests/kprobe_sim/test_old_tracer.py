"""The tracer on the kernels of the documents and on old ones: every view, and what a refusal says there."""

from __future__ import annotations

import json
import re

import pytest

from kprobe import Tracer
from kprobe.cli import main
from kprobe.errors import AlreadyExists, Refused, UndoFailed
from kprobe.tracefs.backends import open_tracefs
from kprobe_sim import SimulatedKernel, Task
from kprobe_text.text import Event

CALLER = "sys_open+0x1b/0x1d"


def opened(kernel: SimulatedKernel, at: int, returns: int = 3) -> None:
    task = Task(42, "cat")
    kernel.call("do_sys_open", task=task, args=(0xFFFFFF9C, "/etc"), returns=returns, caller=CALLER, at=at)


@pytest.mark.parametrize("series", ["2009", "2009-v13"])
def test_latency_says_where_the_stack_is_in_the_words_of_2009(series: str) -> None:
    kernel = SimulatedKernel(series)
    with Tracer(kernel.tracefs).trace("p:do_sys_open", latency=True, timeout=0.01) as trace:
        assert [str(probe) for probe in trace.probes] == [
            "p:do_sys_open do_sys_open sa",
            "r:do_sys_open_return do_sys_open sa",
        ]
        opened(kernel, 10**9)
        latencies = trace.latencies()
    assert {name: (one.calls, one.mean) for name, one in latencies.items()} == {"do_sys_open": (1, 1000.0)}
    assert kernel.tracefs.read("kprobe_events") == b""


def test_the_place_of_the_stack_tells_missed_returns_of_2009() -> None:
    """An entry whose return was missed stands where the task's next call does, and isn't paired with its return."""
    kernel = SimulatedKernel("2009")
    with Tracer(kernel.tracefs).trace("p:do_sys_open", latency=True, timeout=0.01) as trace:
        kernel.call("do_sys_open", task=Task(42, "cat"), args=(0, 0), returns=None, caller=CALLER, at=10**9)
        opened(kernel, 2 * 10**9)
        latency = trace.latencies()["do_sys_open"]
    assert (latency.calls, latency.mean, latency.unreturned, latency.running) == (1, 1000.0, 1, 0)


def test_events_of_2009_have_their_names_by_their_places() -> None:
    kernel = SimulatedKernel("2009")
    with Tracer(kernel.tracefs).trace("p:x do_sys_open d=a0", "r:y do_sys_open rv", timeout=0.01) as trace:
        opened(kernel, 10**9)
        assert [(event.name, dict(event.fields)) for event in trace.events()] == [
            ("x", {"d": 0xFFFFFF9C}),
            ("y", {"rv": 3}),
        ]


@pytest.mark.parametrize("duration", [None, 0.0])
def test_a_return_of_2009_to_where_no_symbol_is(duration: float | None) -> None:
    kernel = SimulatedKernel("2009")
    timeout = 0.01 if duration is None else None
    with Tracer(kernel.tracefs).trace("r:y do_sys_open rv", timeout=timeout, duration=duration) as trace:
        kernel.call("do_sys_open", task=Task(42, "cat"), args=(0, 0), returns=3, at=10**9)
        records = list(trace)
        assert trace.tally.total == 1
    event = records[-1]
    assert isinstance(event, Event)
    assert event.address is not None
    assert event.caller is not None
    assert (event.name, event.address.symbol, event.caller.text, dict(event.fields)) == (
        *("y", "do_sys_open", "0"),
        {"rv": 3},
    )


def test_values_of_revision_13_are_called_as_in_its_format() -> None:
    kernel = SimulatedKernel("2009-v13")
    with Tracer(kernel.tracefs).trace("p:x do_sys_open a0 a3", timeout=0.01) as trace:
        opened(kernel, 10**9)
        assert [dict(event.fields) for event in trace.events()] == [{"arg0": 0xFFFFFF9C, "arg1": 0}]


def test_two_probes_of_2009_at_one_place_stay_without_names() -> None:
    kernel = SimulatedKernel("2009")
    with Tracer(kernel.tracefs).trace("p:x do_sys_open", "p:y do_sys_open", timeout=0.01) as trace:
        opened(kernel, 10**9)
        assert [event.name for event in trace.events()] == ["", ""]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--count", "comm", "p:do_sys_open"], "do_sys_open, by comm\n"),
        (["--hist", "r", "r:x do_sys_open r=rv"], "x r: 1 numbers, 9 .. 9, mean 9\n"),
        (["--json", "p:do_sys_open"], '"name":"do_sys_open","address":"do_sys_open+0x0/0xd6"'),
    ],
)
def test_views_of_2009_name_the_event(arguments: list[str], shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--tracefs", "sim:2009", "--max-events", "1", *arguments]) == 0
    assert shown in capsys.readouterr().out


def test_no_count_by_name_where_lines_have_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--tracefs", "sim:2009", "--max-events", "4", "p:x do_sys_open", "r:y do_sys_open"]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "4 events, 0 lost, 0 missed"


@pytest.mark.parametrize(
    ("series", "lines"),
    [
        (
            "2009",
            [
                "p:do_sys_open do_sys_open di=%di si=%si dx=%dx cx=%cx r8=%r8 r9=%r9",
                "r:do_sys_open_return do_sys_open ret=rv",
            ],
        ),
        ("2009-v13", ["p:do_sys_open do_sys_open %di %si %dx %cx %r8 %r9", "r:do_sys_open_return do_sys_open rv"]),
    ],
)
def test_args_of_2009_are_those_that_it_takes(
    series: str, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--tracefs", f"sim:{series}", "args", "do_sys_open"]) == 0
    assert capsys.readouterr().out.splitlines() == lines


def test_args_of_a_function_that_2009_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--tracefs", "sim:2009", "args", "vfs_read"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "hint: this kernel has no function vfs_read"


@pytest.mark.parametrize("definition", ["f:do_sys_open", "t:sched_switch", "e:sched.sched_switch"])
def test_a_kernel_without_a_readme_says_what_it_has(definition: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--tracefs", "sim:2009", definition]) == 1
    said = capsys.readouterr().err.splitlines()[0]
    assert re.fullmatch(r"ERROR: this kernel has no \w+ probes \(.:\) \(it has p:, r:, by its README and .*\)", said)


def test_a_probe_under_another_name_is_taken_back_on_2009(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--tracefs", "sim:2009", "r100:do_sys_open"]) == 1
    assert capsys.readouterr().err == (
        "ERROR: this kernel has no event kprobes/do_sys_open (r100:do_sys_open do_sys_open made "
        "kprobes/r_do_sys_open_0 instead)\n"
        "hint: the number in r100: came with Linux 4.12: leave it out\n"
    )


def test_what_others_have_on_2009_is_removed_with_all() -> None:
    tracefs = SimulatedKernel("2009").tracefs
    tracefs.write("kprobe_events", b"p:mine sys_open\n")
    with pytest.raises(AlreadyExists) as raised, Tracer(tracefs).trace("p:mine do_sys_open"):
        pass
    assert raised.value.hint == (
        "p:mine sys_open+0 is somebody's; choose another name, or remove all probes, as this kernel removes no single "
        "one: echo > kprobe_events"
    )
    with pytest.raises(UndoFailed) as left, Tracer(tracefs).trace("p:x do_sys_open"):
        pass
    assert str(left.value).splitlines()[1:] == [
        "  remove kprobes/x from kprobe_events: [Errno 16] this kernel can only remove all probes, and has others: "
        "p:mine sys_open+0: 'kprobe_events'",
        "    by hand: echo > kprobe_events",
    ]


REGISTER = "there is no register %zz: they are %ax %bx %cx %dx %si %di %bp %sp %ip %r8 … %r15"
NO_TYPE = "there is no type foo here: u8 to u64 and s8 to s64 are there, and string of what is in memory"


@pytest.mark.parametrize(
    ("series", "definition", "hint"),
    [
        ("2009", "p:x do_sys_open $comm", "$comm came later: every line begins with the task's name"),
        ("2009", "p:x do_sys_open %zz", REGISTER),
        (
            "2009",
            "p:mine/x do_sys_open",
            "this kernel's events have no groups, which came with Linux 2.6.33: leave mine/ out",
        ),
        ("2009", "p:nosuch", "this kernel has no function nosuch"),
        ("2009", "p:x do_sys_opn", "this kernel has no function do_sys_opn; did you mean do_sys_open?"),
        ("2009", "p:x do_sys_open+2", "perhaps no instruction starts at do_sys_open+2; do_sys_open+0 is one"),
        (
            "2009-v13",
            "p:x do_sys_open dfd=a0",
            "if arguments have no names here, as in revision 13: a0 in place of dfd=a0",
        ),
        ("3.13-i386", "p:x do_sys_open %di:foo", NO_TYPE),
        ("3.13-i386", "p:x do_sys_open d=%di:s32 c=%zz", REGISTER),
        (
            "2.6.33",
            "p:x do_sys_open %di:s32",
            "this kernel may have no types, which came with Linux 2.6.35: leave :s32 out",
        ),
        (
            "2.6.33",
            "p:nosuch",
            "this kernel has no function nosuch; available_filter_functions lists those it can probe",
        ),
        ("3.2", "p:x do_sys_open %di:u8[4]", "this kernel has no arrays: write an argument for each element"),
        ("4.19", "p:x do_sys_open a=+0(%si):u8[4]", "this kernel has no arrays: write an argument for each element"),
        ("4.19", "p:x do_sys_open a=\\1", "this kernel has no values that stand for themselves: leave it out"),
        (
            "4.19",
            "p:x do_sys_open +u0(%si):string",
            "this kernel has no +u: +0(…) reads the memory of processes, too",
        ),
        ("4.19", "p:x do_sys_open%return $retval", "this kernel has no %return: 'r:x do_sys_open $retval'"),
        ("4.9", "u:/nonexistent:0x10", "there is no file /nonexistent on the traced machine"),
        ("3.2", "p:x do_sys_open %di:foo", NO_TYPE),
        ("3.2", "p:x do_sys_open %zz", REGISTER),
        (
            "4.4",
            "p:x do_sys_open $comm",
            "$comm came with Linux 4.8; before that, every line begins with the task's name",
        ),
    ],
)
def test_a_refusal_says_what_to_write(series: str, definition: str, hint: str) -> None:
    tracefs = open_tracefs(f"sim:{series}")
    with pytest.raises(Refused) as raised, Tracer(tracefs).trace(definition):
        pass
    assert raised.value.hint == hint


@pytest.mark.parametrize("option", ["--json", "--csv"])
def test_text_of_a_duration_is_counted_and_cut(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """3.2 is read as text, whose events weren't counted, nor was their number held."""
    words = ["--tracefs", "sim:3.2", "-d", "0.5", "--max-events", "2", option, "p:do_sys_open"]
    assert main(words) == 0
    shown = capsys.readouterr()
    assert shown.err.splitlines()[-1] == "2 events, 0 lost, 0 missed"
    if option == "--json":
        assert [json.loads(line)["type"] for line in shown.out.splitlines()] == ["status", "event", "event", "status"]


SIGNS = "p:x do_sys_open a=%di:s8 b=%di:s16 c=%di:s32 d=%di:s64 e=%di:u32"


@pytest.mark.parametrize("series", ["2.6.36", "3.2", "3.13", "4.4", "4.9", "5.4"])
def test_histograms_keep_the_sign(series: str) -> None:
    """Of dfd = -100, whose register's upper half is 0, as a recorded 3.2 has it: t_s64: di=4294967196."""
    kernel = SimulatedKernel(series)
    for field, number in {"a": -100, "b": -100, "c": -100, "d": 4294967196, "e": 4294967196}.items():
        with Tracer(kernel.tracefs).trace(SIGNS, timeout=0.01) as trace:
            opened(kernel, 10**9)
            assert {name: (one.least, one.most) for name, one in trace.histograms(field).items()} == {
                "x": (number, number)
            }
            assert trace.notices == (
                [
                    f"x {field}: 1 numbers are below 0 if it is an int of C, from -100 on; the type s32 shows them so, "
                    "on kernels with types"
                ]
                if number > 0
                else []
            )
