"""`tools/fuzz/kill9.py`: sessions of `kprobe` killed at random moments leave nothing, or the tool says what."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from .conftest import ROOT, TRACING, Run

TOOL = str(ROOT / "tools" / "fuzz" / "kill9.py")
SEEN = f"""
import os, sys
sys.path.insert(0, {str(ROOT / "tools" / "fuzz")!r})
import kill9
kill9.furnish({TRACING!r})
bench = kill9.Bench({TRACING!r}, 1, 0.0)
bench.before = bench.state(whole=False)
print(bench.differs())
for path, text in (("kprobe_events", "p:theirs/more vfs_read"), ("buffer_size_kb", "500"), ("options/stacktrace", "1")):
    kill9.write(f"{TRACING}/{{path}}", text)
os.mkdir("{TRACING}/instances/more")
kill9.write("{TRACING}/events/theirs/theirs/filter", "0")
kill9.write("{TRACING}/events/theirs/more/enable", "1")
print(bench.differs())
"""


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_ten_that_are_killed_leave_nothing(run: Run) -> None:
    words = ["--root", TRACING, "--count", "10", "--seconds", "0.05", "--seed", "4", "--quick"]
    done: Any = run([sys.executable, TOOL, *words], ["--kernel", "6.12", "--activity", "opens"], timeout=230)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("10 killed in "), last
    assert last.endswith(" left something at once, 0 after the next run")


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_signals_end_sessions_beside_a_neighbour(run: Run) -> None:
    words = ["--root", TRACING, "--count", "10", "--seconds", "0.05", "--seed", "4", "--signals"]
    done: Any = run([sys.executable, TOOL, *words], ["--kernel", "6.12", "--activity", "opens"], timeout=230)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("10 sessions of ")
    assert done.stdout.endswith(" 0 findings\n")


@pytest.mark.slow
def test_what_is_left_is_seen(run: Run) -> None:
    done: Any = run([sys.executable, "-c", SEEN])
    assert done.stderr == ""
    clean, left = done.stdout.splitlines()
    assert clean == "[]"
    paths = ("buffer_size_kb", "kprobe_events", "dynamic_events", "set_event", "instances", "options/stacktrace")
    events = ("events/theirs/theirs/filter", "events/theirs/more/enable")
    assert {f"{path!r}" for path in (*paths, *events)} <= set(left.strip("[]").split(", "))
