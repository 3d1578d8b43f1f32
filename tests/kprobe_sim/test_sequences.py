"""Sequences of writes, as observed on five kernels: what each gave, what kprobe_events and error_log said after it.

fixtures/definitions/sequences.json: runs of steps; `do` is what was done before a step (probes enabled, filters set,
files held open), `answers` what the kernels named gave.  The log is read with what the steps before left in it.
"""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from kprobe_sim import SimulatedKernel

RUNS = json.loads((Path(__file__).parents[2] / "fixtures" / "definitions" / "sequences.json").read_text("ascii"))
SERIES = ("5.10", "6.1", "6.12", "7.2", "7.3")
MODES = {"append": os.O_WRONLY | os.O_APPEND, "plain": os.O_WRONLY, "trunc": os.O_WRONLY | os.O_TRUNC}


def written(kernel: SimulatedKernel, path: str, mode: str, data: str) -> str:
    """Do one open, write and close; return how it went, as the observer wrote it down."""
    try:
        file = kernel.tracefs.open(path, MODES[mode])
    except OSError as error:
        return f"OPEN:{errno.errorcode[error.errno or 0]}"
    try:
        return str(file.write(data.encode("latin-1")))
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    finally:
        file.close()


def log_of(kernel: SimulatedKernel) -> list[list[Any]]:
    lines = kernel.tracefs.read("error_log").decode("latin-1").splitlines()
    heads = (line.partition("] ")[2] for line in lines[::3])
    return [[head, len(caret) - 12] for head, caret in zip(heads, lines[2::3], strict=True)]


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("run", [pytest.param(run, id=run[0]["name"]) for run in RUNS])
def test_observed_sequence(series: str, run: list[dict[str, Any]]) -> None:
    kernel = SimulatedKernel(series, cpus=1)
    held = []
    for step in run:
        for action, path, *data in step["do"]:
            if action == "open":
                held.append(kernel.tracefs.open(path, os.O_RDONLY))
            else:
                kernel.tracefs.write(path, data[0].encode())
        (answer,) = (found["answer"] for found in step["answers"] if series in found["series"])
        assert written(kernel, step["target"], step["mode"], step["input"]) == answer["result"], step["name"]
        if "values" in answer:
            values = [kernel.tracefs.read(path).decode() for path in step["reads"]]
            assert values == answer["values"], step["name"]
            continue
        if answer["listing"] is None:  # of these only the result was written down
            continue
        assert kernel.tracefs.read("kprobe_events").decode("latin-1").splitlines() == answer["listing"], step["name"]
        assert log_of(kernel) == answer["errors"], step["name"]
    for file in held:
        file.close()


def test_the_fixture_is_whole() -> None:
    steps = [step for run in RUNS for step in run]
    assert (len(RUNS), len(steps)) == (27, 136)
    assert {series for step in steps for found in step["answers"] for series in found["series"]} == set(SERIES)
