"""How far a trace goes: so many events, so long, on these CPUs, with such a buffer; on every tracefs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kprobe import Event, Tracer, Unsupported
from kprobe.cli import main

from .text import probes

OPEN = "p:myopen do_sys_openat2 filename=+0(%si):string"
MINE = 'comm == "workload"'


class Working:
    """The tracefs of a machine at work: it opens a file five times once tracing is on."""

    def __init__(self, tracefs: Any, workload: Any) -> None:
        self._tracefs = tracefs
        self._workload = workload

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tracefs, name)

    def play(self) -> None:
        for _ in range(5):
            self._workload.open("/dev/null")


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["-s"], ["--raw"]])
def test_so_many_events(tracefs: Any, workload: Any, capfd: Any, options: list[str]) -> None:
    assert main(["-F", *options, "--max-events", "3", OPEN, MINE], tracefs=Working(tracefs, workload)) == 0
    out, err = capfd.readouterr()
    assert out.count(" myopen: (") == 3
    assert out.count("stack trace>") == (3 if options == ["-s"] else 0)
    assert err.endswith("\nEnding tracing...\n3 events, 0 lost, 0 missed\n")
    assert probes(tracefs) == []
    assert tracefs.listdir("instances") == []


def test_so_long(tracefs: Any, workload: Any, capfd: Any) -> None:
    assert main(["-F", "--timeout", "0.3", OPEN, MINE], tracefs=Working(tracefs, workload)) == 0
    out, err = capfd.readouterr()
    assert out.count(" myopen: (") == 5
    assert err.endswith("\nEnding tracing...\n5 events, 0 lost, 0 missed\n")


def test_into_a_file(tracefs: Any, workload: Any, tmp_path: Path, capfd: Any) -> None:
    file = tmp_path / "trace.txt"
    file.write_text("what there was, and more than what comes\n" * 50)
    argv = ["-F", "-o", str(file), "--max-events", "2"]
    assert main([*argv, "p:myopen do_sys_openat2 a=%nosuch"], tracefs=tracefs) == 1
    assert file.read_text().count("what there was") == 50  # nothing was to be written
    assert main([*argv, OPEN, MINE], tracefs=Working(tracefs, workload)) == 0
    assert file.read_text().count('filename="/dev/null"\n') == 2
    assert file.read_text().count("\n") == 2
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("top_level", [False, True])
def test_the_buffers_size_and_the_cpus(tracefs: Any, workload: Any, top_level: bool) -> None:
    tracefs.write("buffer_size_kb", b"300")
    before = [tracefs.read(path) for path in ("buffer_size_kb", "tracing_cpumask")]
    with Tracer(tracefs).trace(OPEN, filter=MINE, buffer_size=100, cpus=[0], top_level=top_level) as trace:
        size = int(trace.instance.state("buffer_size_kb"))
        assert 100 <= size < 110
        assert int(trace.instance.state("tracing_cpumask").replace(",", ""), 16) == 1
        workload.open("/dev/null")
        trace.stop()
        assert [event.cpu for event in trace if isinstance(event, Event)] == [0]
    assert [tracefs.read(path) for path in ("buffer_size_kb", "tracing_cpumask")] == before


@pytest.mark.parametrize("top_level", [False, True])
def test_a_cpu_that_is_not_there(tracefs: Any, top_level: bool) -> None:
    before = tracefs.read("tracing_cpumask")
    with (
        pytest.raises(Unsupported, match="this kernel has no CPU 999"),
        Tracer(tracefs).trace(OPEN, cpus=[0, 999], top_level=top_level),
    ):
        pass
    assert tracefs.read("tracing_cpumask") == before
    assert tracefs.listdir("instances") == []
