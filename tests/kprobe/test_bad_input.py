"""What the command is given that it can't use: it says so, and touches nothing."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from kprobe import Tracer
from kprobe.cli import main
from kprobe_sim import SimulatedKernel
from kprobe_text.terminal.output import Output

PROBE = "p:do_sys_openat2"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-o", "", PROBE], "-o takes a value, and this one is empty"),
        (["--tracefs", "", PROBE], "--tracefs takes a value, and this one is empty"),
        (["--tracefs=", "list"], "--tracefs takes a value, and this one is empty"),
        (["--hist", "", PROBE], "--hist takes a value, and this one is empty"),
        (["--count=", PROBE], "--count takes a value, and this one is empty"),
        (["--cpus", "", PROBE], "--cpus takes a value, and this one is empty"),
        (["--max-probes", "0", PROBE], "--max-probes takes a number from 1 on"),
        (["--max-events", "0", PROBE], "--max-events takes a number from 1 on"),
        (["--buffer-size", "0", PROBE], "--buffer-size takes a number from 1 on"),
        (["functions", ""], "this is not a function's name, or a pattern\n  \n  ^"),
        (["functions", "\udcff*"], "this is not a function's name, or a pattern"),
        (["completion", "bash", "zsh"], "completion is for one shell: bash, zsh or fish"),
        (["completion", "ksh"], "completion is for bash, zsh or fish, not 'ksh'"),
    ],
)
def test_it_is_said(words: list[str], said: str, capfd: Any) -> None:
    kernel = SimulatedKernel("6.12")
    assert main(words, tracefs=kernel.tracefs) == 2
    out, err = capfd.readouterr()
    assert (out, err.startswith(f"ERROR: {said}\n")) == ("", True), err
    assert (kernel.tracefs.read("kprobe_events"), kernel.tracefs.listdir("instances")) == (b"", [])


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int, data: bytes) -> int:
        raise OSError(errno.EIO, "Input/output error")

    with (tmp_path / "out").open("wb") as file, Output(file, name="out") as output:
        monkeypatch.setattr("os.write", fail)
        with pytest.raises(OSError, match=r"^\[Errno 5\] Input/output error: 'out'$") as caught:
            output.write(b"text", lambda: False)
    assert not isinstance(caught.value, BrokenPipeError)


def test_a_terminal_that_is_gone_is_nobody_who_reads() -> None:
    master, slave = os.openpty()
    with os.fdopen(slave, "wb") as file, Output(file) as output:
        os.close(master)
        with pytest.raises(BrokenPipeError):
            output.write(b"text", lambda: False)


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({"max_events": 0}, "max_events is a number from 1 on, not 0"),
        ({"max_probes": -1}, "max_probes is a number from 1 on, not -1"),
        ({"buffer_size": 0}, "buffer_size is a number from 1 on, not 0"),
        ({"duration": -0.5}, "duration is a number of seconds, not -0.5"),
        ({"timeout": float("nan")}, "timeout is a number of seconds, not nan"),
        ({"cpus": []}, "cpus names no CPU"),
        ({"pid": 1, "tid": 1}, "pid or tid, not both"),
        ({"duration": 1, "timeout": 1}, "duration or timeout, not both"),
    ],
)
def test_what_no_trace_can_have(terms: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}$"):
        Tracer(SimulatedKernel("6.12").tracefs).trace(PROBE, **terms)
