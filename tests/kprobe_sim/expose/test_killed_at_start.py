"""A command that is killed while `kprobe-sim run` makes its machine: a line and 128 + the signal, never a traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest

# the child is killed where it first calls a function
SCRIPT = """\
import os, signal, sys
from kprobe_sim.cli import main
from kprobe_sim.expose.run import run
name, number = sys.argv[1:3]
place = {"_answered": run, "_cover": run, "_lock": run, "close": os}[name]
this, known, calls = os.getpid(), getattr(place, name), []
def dying(*words):
    if os.getpid() != this:
        calls.append(name)
        if len(calls) == int(number):
            os.kill(os.getpid(), signal.SIGKILL)
    return known(*words)
setattr(place, name, dying)
sys.exit(main(["run", *sys.argv[3:], "--", "true"]))
"""
SAID = "kprobe-sim: run: the command was killed by signal 9 before it began\n"


@pytest.mark.requires("/dev/fuse")
@pytest.mark.parametrize("options", [[], ["--follow"]])
@pytest.mark.parametrize(
    ("function", "number"), [("_answered", 1), ("_answered", 2), ("_cover", 1), ("_lock", 1), ("close", 2)]
)
def test_a_child_that_is_killed(function: str, number: int, options: list[str]) -> None:
    words = [sys.executable, "-c", SCRIPT, function, str(number), *options]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (137, "", SAID)
