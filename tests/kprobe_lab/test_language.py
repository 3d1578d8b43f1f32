"""The language of operations: what lines do, and why others are refused."""

from __future__ import annotations

import os

import pytest

from kprobe_lab.changes.language import BadOperation, Mode, Step, parsed, shell
from kprobe_lab.operations.operation import List, Make, Read, Remove, Write

ADDED = os.O_WRONLY | os.O_APPEND
APPENDED = os.O_WRONLY | os.O_CREAT | os.O_APPEND
REPLACED = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
COMMANDS = "echo, cat, ls, stat, mkdir, rmdir, cd"
EXEC = "events/sched/sched_process_exec"


@pytest.mark.parametrize(
    ("line", "steps"),
    [
        ("p:x vfs_read a=$arg1", (Write("kprobe_events", b"p:x vfs_read a=$arg1\n", ADDED),)),
        ("r4 vfs_read", (Write("kprobe_events", b"r4 vfs_read\n", ADDED),)),
        ("-:x", (Write("kprobe_events", b"-:x\n", ADDED),)),
        ("p:u /bin/sh:0x10", (Write("uprobe_events", b"p:u /bin/sh:0x10\n", ADDED),)),
        ("f:x vfs_read", (Write("dynamic_events", b"f:x vfs_read\n", ADDED),)),
        ("e:x sched/sched_switch pid=$prev_pid", (
            Write("dynamic_events", b"e:x sched/sched_switch pid=$prev_pid\n", ADDED),
        )),
        ("s:x u64 lat", (Write("dynamic_events", b"s:x u64 lat\n", ADDED),)),
        ("pid == 1 || filename ~ \"a|b;\"", (Write(f"{EXEC}/filter", b"pid == 1 || filename ~ \"a|b;\"\n"),)),
        ("p == 1", (Write(f"{EXEC}/filter", b"p == 1\n"),)),
        ("stacktrace", (Write(f"{EXEC}/trigger", b"stacktrace\n", ADDED),)),
        ("!hist:keys=pid", (Write(f"{EXEC}/trigger", b"!hist:keys=pid\n", ADDED),)),
        ("echo 'p:x vfs_read a=$arg1' >> kprobe_events", (
            Write("kprobe_events", b"p:x vfs_read a=$arg1\n", APPENDED),
        )),
        (r'echo "p:x vfs_read a=\$arg1 b=\"" > kprobe_events', (
            Write("kprobe_events", b'p:x vfs_read a=$arg1 b="\n', REPLACED),
        )),
        (r"sudo echo -n a\ b   'c'd > /sys/kernel/tracing/trace_marker", (Write("trace_marker", b"a b cd", REPLACED),)),
        ("echo 1 | sudo tee /sys/kernel/debug/tracing/tracing_on", (Write("tracing_on", b"1\n", REPLACED),)),
        ("echo -:x | tee -a kprobe_events", (Write("kprobe_events", b"-:x\n", APPENDED),)),
        ("echo > set_event", (Write("set_event", b"\n", REPLACED),)),
        ("mkdir instances/a && cd instances/a; cat trace_clock; ls; cd ../..; rmdir instances/a", (
            Make("instances/a"), Read("instances/a/trace_clock"), List("instances/a"), Remove("instances/a"),
        )),
        ("cd /sys/kernel/tracing\nls -1 events/sched", (List("events/sched"),)),
        ("stat -c %a .", (Mode(""),)),
    ],
)  # fmt: skip
def test_what_a_line_does(line: str, steps: tuple[Step, ...]) -> None:
    assert parsed(line) == steps


def test_a_filter_and_a_trigger_are_of_the_event_that_is_given() -> None:
    assert parsed("prev_pid == 1", "sched/sched_switch")[0][0] == "events/sched/sched_switch/filter"
    assert parsed("traceoff:1", "sched/sched_switch")[0][0] == "events/sched/sched_switch/trigger"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "nothing to do"),
        (" \n", "nothing to do"),
        (
            "hello",
            f"'hello' isn't a command ({COMMANDS}), and the line isn't a definition, filter or trigger",
        ),
        (
            "frob > x; cat y",
            f"'frob' isn't a command ({COMMANDS}), and the line isn't a definition, filter or trigger",
        ),
        ("cat x; frob", f"'frob' is none of the commands {COMMANDS}"),
        ("sudo", f"'nothing' is none of the commands {COMMANDS}"),
        ("cd /sys/kernel/tracing", "nothing to do"),
        ("echo hello", "echo needs a file: echo 'TEXT' > FILE, >> FILE, or | tee [-a] FILE"),
        ("echo hello > a b", "echo needs a file: echo 'TEXT' > FILE, >> FILE, or | tee [-a] FILE"),
        ("echo hello | sed s/h/H/", "echo needs a file: echo 'TEXT' > FILE, >> FILE, or | tee [-a] FILE"),
        ("echo -e 'a' > x", "echo -e isn't known here: without it backslashes stay as they are"),
        (
            "echo p:x vfs_read a=$arg1 > kprobe_events",
            "a shell wouldn't leave $ in 'a=$arg1' as it is: put it in single quotes",
        ),
        (
            'echo "p:x vfs_read a=$arg1" > kprobe_events',
            "a shell wouldn't leave $ in 'p:x vfs_read a=$arg1' as it is: put it in single quotes",
        ),
        (
            "echo p:x vfs_read a=+0(%si) > kprobe_events",
            "a shell wouldn't leave ( in 'a=+0(%si)' as it is: put it in single quotes",
        ),
        ("echo 'p:x vfs_read > kprobe_events", "' at column 6 has no end"),
        ("cat README | grep x", "the known form is: cat FILE"),
        ("cat /etc/passwd", "/etc/passwd isn't in /sys/kernel/tracing"),
        ("cat ../x", "../x leads out of the tracefs"),
        ("stat events", "the only form of stat is: stat -c %a FILE"),
    ],
)
def test_what_is_no_operation_says_why(line: str, why: str) -> None:
    with pytest.raises(BadOperation) as refused:
        parsed(line)
    assert str(refused.value) == why


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("p:x vfs_read a=$arg1", "echo 'p:x vfs_read a=$arg1' >> kprobe_events"),
        ('p:x vfs_read a=\\"it\'s"', "echo 'p:x vfs_read a=\\\"it'\\''s\"' >> kprobe_events"),
        ("echo -n 1 > tracing_on;ls events;ls;stat -c %a events", (
            "echo -n 1 > tracing_on; ls events; ls .; stat -c %a events"
        )),
        ("mkdir instances/a&&rmdir instances/a", "mkdir instances/a; rmdir instances/a"),
    ],
)  # fmt: skip
def test_an_operation_as_a_shell_takes_it(line: str, said: str) -> None:
    steps = parsed(line)
    assert shell(steps) == said
    assert [step[:2] for step in parsed(said)] == [step[:2] for step in steps]
