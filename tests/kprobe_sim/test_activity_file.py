"""The file of an activity, and that of a scenario: nothing in it ends in a traceback, and all is said at once."""

from __future__ import annotations

import datetime
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kprobe_sim import SimulatedKernel
from kprobe_sim.kernel import activity, activity_file
from kprobe_sim.kernel.backend import open_sim
from kprobe_sim.scenarios.scenario import scenario_of

# what TOML can hold, and what somebody might write
NONSENSE = st.one_of(
    st.sampled_from(
        [
            *(True, False, -1, 0, 1, 2, 5, 100_000, 1 << 63, 1 << 64, 10**40, -(10**40)),
            *(0.0, -0.5, 1.5, 1e308, float("inf"), float("-inf"), float("nan")),
            *("", "x", "cat-1", "cat-99999999999", "vfs_read", "vfs_read+0x10", "nosuch", "sched/sched_switch", "a/b"),
            *("0x10", "zz", "\0", "\n", "é", "sys_enter+0x1/0x2", "x" * 5000, "openat", "-1", "1/2/3"),
            *([], [[]], [1], ["x"], [True], [{}], [1e308], [{"hex": "00"}], [{"hex": 1}], list(range(70))),
            *({}, {"x": 1}, {"hex": "00"}, {"hex": "0"}, {"ax": "x"}, {"ax": 1 << 70}, {"di": -1}, {"0x10": "00"}),
            *({"x": "00"}, {"-1": "00"}, {"0xffffffffffffffff": "0000"}, {"name": "openat"}, {"name": 5}),
            *({"name": "openat", "args": "x"}, {"prev_pid": 10**30}, {"prev_comm": 5}, {"prev_comm": ["x"]}),
            *({"comm": "x", "pid": 1}, {"comm": 1, "pid": "x"}, {"id": 1}, {"id": -1, "hex": 5}),
            *(datetime.date(2024, 1, 1), datetime.time(1), datetime.datetime(2024, 1, 1)),
        ]
    ),
    st.text(max_size=5),
    st.integers(),
    st.floats(),
)
GOOD: dict[str, Any] = {"function": "vfs_read", "task": "cat-42"}
SWITCH: dict[str, Any] = {"event": "sched/sched_switch", "task": "cat-42", "fields": {"prev_pid": 42}}


def wrong(base: dict[str, Any], keys: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Return tables with up to two fields of nonsense."""
    return st.dictionaries(st.sampled_from(sorted(keys)), NONSENSE, min_size=1, max_size=2).map(
        lambda more: base | more
    )


ACTIVITIES = st.one_of(
    *(
        wrong(base, keys).map(lambda call: {"call": [call]})
        for base, keys in ((GOOD, activity_file._CALL_KEYS), (SWITCH, activity_file._EVENT_KEYS))
    ),
    wrong({"name": "mine"}, {"name", "size", "module"}).map(lambda one: {"function": [one], "call": [GOOD]}),
    wrong({"call": [GOOD]}, {"repeat", "call", "function", "nosuch"}),
)


@settings(max_examples=60, deadline=None)
@given(ACTIVITIES)
def test_what_is_wrong_is_said_when_it_is_loaded_and_never_later(table: dict[str, Any]) -> None:
    try:
        loaded = activity.Activity(*activity_file.read(table), "mine")
        if len(loaded.steps) > 100:
            loaded = loaded._replace(steps=loaded.steps[:100])
        kernel = SimulatedKernel("6.1", cpus=max(step.options["cpu"] for step in loaded.steps) + 1)
        kernel.tracefs.write("kprobe_events", b"p:a vfs_read a=%ax b=+0(%si):string s=$stack3\nr:b vfs_read $retval")
        for event in ("kprobes", "sched/sched_switch", "raw_syscalls"):
            kernel.tracefs.write(f"events/{event}/enable", b"1")
        kernel.tracefs.write("options/stacktrace", b"1")
        loaded.prepare(kernel)
        loaded.check(kernel)
    except ValueError:
        return
    for step in loaded.steps:
        step.take(kernel, step.options)
    assert kernel.tracefs.read("trace")


SCENARIO: dict[str, Any] = {"definitions": ["p:ent do_sys_openat2 dfd=%di:s32"]}
SCENARIOS = st.one_of(
    wrong(
        SCENARIO | {"call": [{"open": "/etc/hostname"}]},
        {
            *("title", "clock", "instance", "reader", "guest", "definitions", "enable", "options", "defects", "cpus"),
            *("buffer_kb", "saved_cmdlines", "filters", "function", "call", "start", "fresh", "unlike", "nosuch"),
        },
    ),
    *(
        wrong(
            base,
            {
                *("task", "cpu", "at", "after", "times", "known", "flags", "preempt_count", "duration", "how", "dfd"),
                *(
                    "returns",
                    "args",
                    "caller",
                    "stack",
                    "registers",
                    "memory",
                    "offset",
                    "user_stack",
                    "fields",
                    "data",
                ),
                *base,
            },
        ).map(lambda call: SCENARIO | {"call": [call]})
        for base in (
            {"open": "/x"},
            {"fadvise": [1]},
            {"function": "vfs_read"},
            {"event": "sched/sched_switch"},
            {"marker": "x"},
            {"raw_marker": {"id": 1}},
            {"write": "tracing_on", "data": "1"},
            {"read": True},
        )
    ),
)


@settings(max_examples=60, deadline=None)
@given(SCENARIOS)
def test_a_scenario_s_file_is_looked_at_in_the_same_way(table: dict[str, Any]) -> None:
    with suppress(ValueError):
        assert scenario_of(table).steps


ALL_AT_ONCE = """\
repeat = true

[[function]]
name = "mine"
size = 0

[[call]]
function = "vfs_read"
task = "cat-1"
args = "x"

[[call]]
event = "sched/sched_switch"
task = "cat-1"
feilds = { prev_pid = 1 }

[[call]]
function = "vfs_read"
task = "cat-1"
after = 1e308
"""


def test_every_fault_is_named_with_its_line_and_what_was_meant() -> None:
    with pytest.raises(ValueError) as caught:
        activity.parse(ALL_AT_ONCE, "a.toml")
    assert str(caught.value).splitlines() == [
        "a.toml: function 1: size is 0, and has to be a number from 1 to 2147483647 (line 3)",
        "a.toml: call 1: args is 'x', and has to be a list (line 7)",
        "a.toml: call 2: unknown key 'feilds': did you mean 'fields'? (line 12)",
        "a.toml: call 3: after is 1e+308, and has to be a number of seconds from 0 to 1000000000 (line 17)",
    ]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("event = 5", "event is 5, and has to be a text"),
        ("function = 'vfs_read'\ncpu = -1", "cpu is -1, and has to be a number from 0 to 8191"),
        ("function = 'vfs_read'\ncpu = 100000", "cpu is 100000, and has to be a number from 0 to 8191"),
        ("function = 'vfs_read'\nat = inf", "at is inf, and has to be a number of seconds from 0 to 1000000000"),
        (
            "function = 'vfs_read'\nreturns = true",
            "returns is True, and has to be a number from -0x80000000",
        ),
        ("function = 'vfs_read'\nknown = 'no'", "known is 'no', and has to be true or false"),
        ("function = 'vfs_read'\ntimes = 0", "times is 0, and has to be a number from 1 to 1000000"),
        ("function = 'vfs_read'\nregisters = { eax = 1 }", "no register 'eax': the kernel's names are r15"),
        (
            "function = 'vfs_read'\nmemory = { here = '00' }",
            "a key of memory is 'here', and has to be the address of",
        ),
        ("function = 'vfs_read'\nmemory = { 16 = '0' }", "memory at 16 is '0', and has to be hexadecimal digits"),
        ("function = 'vfs_read'\nstack = [-1]", "an entry of stack that is no SYMBOL+OFFSET is -1, and has to be a n"),
        ("function = 'vfs_read'\nsystem_call = { name = 'opennat' }", "x86-64 has no system call 'opennat'"),
        ("function = 'vfs_read'\nevent = 'sched/sched_switch'", "it has a function and an event: it is one of them"),
        ("event = 'sched/sched_switch'\nfields = [1]", "fields is [1], and has to be a table"),
    ],
)
def test_nonsense(call: str, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        activity.parse(f"[[call]]\ntask = 'cat-1'\n{call}\n", "a")
    assert str(caught.value).startswith(f"a: call 1: {said}")
    assert str(caught.value).endswith(" (line 1)")


LACKING = """\
[[call]]
function = "vfs_read"
task = "cat-42"

[[call]]
function = "nosuch"
task = "cat-42"
times = 3

[[call]]
function = "vfs_read"
task = "cat-42"
caller = "nobody+0x5"

[[call]]
event = "sched/nosuch"
task = "cat-42"

[[call]]
event = "sched/sched_switch"
task = "cat-42"
fields = { x = 1 }

[[call]]
event = "sched/sched_switch"
task = "cat-42"
fields = { prev_pid = "x" }
"""


@pytest.mark.parametrize("series", ["5.10", "6.12", "7.3"])
def test_what_the_kernel_lacks_is_named_when_it_is_opened(series: str, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(LACKING)
    release = SimulatedKernel(series).release
    with pytest.raises(ValueError) as caught:
        open_sim(f"{series},activity={path}")
    lines = str(caught.value).replace(f"{path}: ", "").splitlines()
    assert [line[:80] for line in lines] == [
        text[:80]
        for text in (
            f"call 2 (line 5): no symbol for the function 'nosuch' in {release}: add it with add_function()",
            f"call 3 (line 10): no symbol for the caller 'nobody+0x5' in {release}: add it with add_function()",
            f"call 4 (line 15): {release} has no static event 'sched/nosuch'",
            "call 5 (line 19): sched/sched_switch has no field 'x'; its fields: prev_comm, prev_pid, prev_prio",
            "call 6 (line 24): sched/sched_switch: 'x' is no value of pid_t prev_pid",
        )
    ]


def test_a_call_that_fails_later_is_told_once_and_the_others_are_made() -> None:
    kernel = SimulatedKernel("6.1")
    kernel.tracefs.write("events/sched/enable", b"1")
    live = activity.parse(f"repeat = true\n{LACKING}".replace("[[call]]", "[[call]]\nafter = 0.0"), "a")
    stop, told = threading.Event(), list[str]()

    def tell(line: str) -> None:
        told.append(line)
        if len(told) == 5:
            stop.set()

    live.play_live(kernel, stop, tell)
    assert told[0].startswith("a: call 2 (line 7): no symbol for the function 'nosuch' in 6.1.0-")
    assert [line.partition(" (")[0] for line in told] == [f"a: call {number}" for number in range(2, 7)]


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    code = f"import sys; from kprobe_sim.cli import main; {script}; sys.exit(main(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, timeout=30
    )


def test_a_run_says_it_before_the_command_starts(tmp_path: Path) -> None:
    path, touched = tmp_path / "a.toml", tmp_path / "touched"
    path.write_text(LACKING)
    done = run("pass", "run", "--kernel", "6.1", "--activity", path, "--", "touch", touched)
    assert (done.returncode, done.stdout, touched.exists()) == (2, "", False)
    assert [line.partition(" (")[0] for line in done.stderr.splitlines()] == [
        f"kprobe-sim: {path}: call {number}" for number in range(2, 7)
    ]
    done = run("pass", "run", "--cpus", "100000", "--", "touch", touched)
    assert (done.returncode, done.stderr) == (2, "kprobe-sim: 100000 CPUs: a kernel has 1 to 8192\n")
    done = run("pass", "run", "--cpus", "-1", "--", "touch", touched)
    assert (done.returncode, done.stderr) == (2, "kprobe-sim: --cpus -1: the activity opens needs 1\n")
