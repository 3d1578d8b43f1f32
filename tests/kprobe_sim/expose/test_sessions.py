"""Sessions of several processes on one tracefs, started at once with one event name and different functions."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from .conftest import Run

FUNCTIONS = ("do_sys_openat2", "vfs_read", "vfs_write", "vfs_open", "vfs_fstat", "vfs_statx")
ROUNDS = 5

RACE = r"""
import json, os, sys, time
from kprobe import AlreadyExists, Event, LocalTracefs, Tracer, UndoFailed

rounds, *functions = sys.argv[1:]
tracefs = LocalTracefs("/sys/kernel/tracing")


def session(function):
    try:
        with Tracer(tracefs).trace(f"p:same {function}") as trace:
            places = {}
            start = time.monotonic()
            while time.monotonic() < start + (0.1 if places else 30):
                try:
                    data = trace.read(0.02)
                except TimeoutError:
                    continue
                for line in data.decode().splitlines():
                    place = line.partition("same: (")[2].partition("+")[0]
                    places[place] = places.get(place, 0) + 1
        return {"function": function, "places": places}
    except AlreadyExists as error:
        return {"function": function, "refused": str(error), "notes": getattr(error, "__notes__", [])}
    except BaseException as error:
        return {"function": function, "error": repr(error), "notes": getattr(error, "__notes__", [])}


found = []
for _ in range(int(rounds)):
    gate, go = os.pipe()
    children = []
    for function in functions:
        answer, say = os.pipe()
        if os.fork() == 0:
            os.close(go)
            os.read(gate, 1)  # until the gate is shut
            os.write(say, json.dumps(session(function)).encode())
            os._exit(0)
        os.close(say)
        children.append(answer)
    os.close(gate)
    os.close(go)
    answers = []
    for answer in children:
        with os.fdopen(answer) as file:
            answers.append(json.load(file))
        os.wait()
    left = tracefs.read("kprobe_events").decode().splitlines() + os.listdir("/sys/kernel/tracing/instances")
    found.append({"sessions": answers, "left": left})
print(json.dumps(found))
"""


def activity(path: Path) -> Path:
    """Write an activity that calls each of the functions a few hundred times a second."""
    calls = "".join(
        f'[[call]]\nfunction = "{name}"\ntask = "busy-77"\nargs = [1]\nreturns = 0\nafter = 0.001\n'
        for name in FUNCTIONS
    )
    file = path / "busy.toml"
    file.write_text(f"repeat = true\n{calls}")
    return file


@pytest.mark.slow
def test_nobody_is_given_the_hits_of_another(run: Run, tmp_path: Path) -> None:
    done = run(
        [sys.executable, "-c", RACE, str(ROUNDS), *FUNCTIONS],
        ["--kernel", "6.1", "--activity", str(activity(tmp_path))],
    )
    assert done.returncode == 0, done.stderr
    rounds = json.loads(done.stdout)
    assert len(rounds) == ROUNDS
    for found in rounds:
        traced = [session for session in found["sessions"] if "places" in session]
        for session in traced:
            assert set(session["places"]) == {session["function"]}, found
        assert all(session.get("notes") == [] for session in found["sessions"] if session not in traced), found
        assert all("refused" in session for session in found["sessions"] if session not in traced), found
        assert found["left"] == []
