"""Ten `kprobe` commands at once, all with one event name: each sees the events, and none leaves anything."""

from __future__ import annotations

import json
import sys

import pytest

from .conftest import Run

SCRIPT = """
import json, os, signal, subprocess, sys

DEFINITION = sys.argv[1]
TRACING = "/sys/kernel/tracing/"

def kprobe():
    argv = [sys.executable, "-m", "kprobe", DEFINITION]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

sessions = [kprobe() for _ in range(10)]
said = [session.stderr.readline() for session in sessions]
there = open(TRACING + "kprobe_events").read().splitlines()
lines = [[session.stdout.readline() for _ in range(3)] for session in sessions]
for session in sessions:
    session.send_signal(signal.SIGINT)
ends = []
for session in sessions:
    for _ in session.stdout:
        pass
    ends.append([session.wait(), session.stderr.read()])
left = [open(TRACING + "kprobe_events").read(), os.listdir(TRACING + "instances")]
print(json.dumps([said, there, lines, ends, left]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("definition", "shown"),
    [
        ("p:opens do_sys_openat2", "opens: (do_sys_openat2+0x0/"),
        ("r:opens do_sys_openat2 fd=$retval", " <- do_sys_openat2) fd="),
    ],
)
def test_ten_sessions_of_one_event_name(run: Run, definition: str, shown: str) -> None:
    done = run([sys.executable, "-c", SCRIPT, definition], ["--activity", "opens"])
    assert (done.stderr, done.returncode) == ("", 0)
    said, there, lines, ends, left = json.loads(done.stdout)
    assert said == ["Tracing kprobe opens. Ctrl-C to end.\n"] * 10
    assert len({line.split()[0] for line in there}) == 10  # a group each
    assert all(line.partition("/")[2].startswith("opens ") for line in there)
    assert [len([line for line in seen if shown in line]) for seen in lines] == [3] * 10
    assert [status for status, _ in ends] == [0] * 10, ends
    assert left == ["", []]
