"""System calls that would lead a program inside `kprobe-sim run` to this machine's own tracing: there are none."""

from __future__ import annotations

import sys

import pytest

from .conftest import Run

WAYS = {"alone": (), "only": ("--only-tracefs",), "followed": ("--follow",)}
PROGRAM = """
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
event = int(open('/sys/kernel/tracing/events/sched/sched_process_exec/id').read())
attributes = ctypes.create_string_buffer(struct.pack('<IIQ', 2, 112, event).ljust(112, b'\\0'))
for number, argument in ((298, attributes), (321, None)):
    print(libc.syscall(number, argument, 0, -1, -1, 0), os.strerror(ctypes.get_errno()))
"""


@pytest.mark.parametrize("way", WAYS)
def test_perf_events_and_bpf(run: Run, way: str) -> None:
    """A tracepoint has another number on this machine, and would be counted without a word."""
    done = run([sys.executable, "-c", PROGRAM], ("--kernel", "6.1", "--activity", "none", *WAYS[way]))
    assert (done.stdout, done.stderr) == ("-1 Function not implemented\n" * 2, "")


@pytest.mark.requires("perf")
def test_perf_says_that_it_cannot_count(run: Run) -> None:
    done = run(["perf", "stat", "-x,", "-e", "sched:sched_process_exec", "/bin/true"])
    assert done.stderr.startswith("<not supported>,,sched:sched_process_exec,")
