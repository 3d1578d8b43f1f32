"""The command on each tracefs: it prints the events that fire there, and leaves everything as it was."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from kprobe.cli import main
from kprobe.undo.owners import this_process

from .builds import Build

DEFINITION = "p:myopen do_sys_openat2 filename=+0(%si):string"


def state(tracefs: Any) -> dict[str, object]:
    files = (
        "kprobe_events",
        "dynamic_events",
        "trace_options",
        "set_event",
        "set_event_pid",
        "tracing_on",
        "trace_clock",
    )
    found: dict[str, object] = {path: tracefs.read(path) for path in (*files, "events/enable", "kprobe_profile")}
    found["events"] = sorted(tracefs.listdir("events"))
    found["instances"] = tracefs.listdir("instances")
    return found


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_it_prints_until_a_signal_and_tidies_up(
    tracefs: Any, workload: Any, build: Build, capfdbinary: Any, number: int, status: int
) -> None:
    before = state(tracefs)
    seen = []

    class Working:
        """The tracefs of a machine at work: opens begin once tracing is on."""

        def __getattr__(self, name: str) -> Any:
            return getattr(tracefs, name)

        def play(self) -> None:
            seen.append(tracefs.read("kprobe_events"))
            for path in ("/etc/hostname", "/dev/null", "/no/host"):
                workload.open(path)

        def stream(self, path: str) -> Any:
            return Interrupted(tracefs.stream(path))

    class Interrupted:
        """What the command reads: when it has had both lines and waits for more, the user interrupts."""

        def __init__(self, stream: Any) -> None:
            self.close = stream.close
            self._stream = stream
            self._lines = 0

        def read(self, timeout: float | None = None) -> bytes:
            if self._lines == 2 and timeout:
                os.kill(os.getpid(), number)
                raise TimeoutError
            data: bytes = self._stream.read(timeout)
            self._lines += data.count(b"\n")
            return data

    filter_ = f'filename ~ "*host*" && common_pid == {workload.pid}'
    assert main(["-F", DEFINITION, filter_], tracefs=Working()) == status
    out, err = capfdbinary.readouterr()
    assert seen == [f"p:{this_process().session(0)}/myopen do_sys_openat2 filename=+0(%si):string\n".encode()]
    assert [line.partition(b": myopen: ")[2] for line in out.splitlines()] == [
        f'({build.openat2}) filename="/etc/hostname"'.encode(),
        f'({build.openat2}) filename="/no/host"'.encode(),
    ]
    assert err == b"Tracing kprobe myopen. Ctrl-C to end.\n\nEnding tracing...\n2 events, 0 lost, 0 missed\n"
    assert state(tracefs) == before


def test_one_process_with_a_stack(tracefs: Any, workload: Any, build: Build, capfdbinary: Any) -> None:
    before = state(tracefs)

    class Working:
        def __getattr__(self, name: str) -> Any:
            return getattr(tracefs, name)

        def play(self) -> None:
            workload.open("/dev/null")

    assert main(["-F", "-s", "-d", "0.01", "-p", str(workload.pid), DEFINITION], tracefs=Working()) == 0
    lines = capfdbinary.readouterr().out.splitlines()
    assert lines[0].endswith(f'myopen: ({build.openat2}) filename="/dev/null"'.encode())
    assert lines[1].endswith(b": <stack trace>")
    assert lines[2:5] == [b" => do_sys_openat2", b" => __x64_sys_openat", b" => do_syscall_64"]
    assert state(tracefs) == before


def test_a_refusal_shows_the_kernels_caret(tracefs: Any, capfd: Any) -> None:
    before = state(tracefs)
    assert main(["-F", "p:myopen do_sys_openat2 filename=%si:string"], tracefs=tracefs) == 1
    lines = capfd.readouterr().err.splitlines()
    assert lines[1:4] == [
        "trace_kprobe: error: String accepts only memory argument",
        "  Command: p:myopen do_sys_openat2 filename=%si:string",
        "                                                ^",
    ]
    assert state(tracefs) == before
