"""What the command makes of records, on each tracefs: lines of JSON, latencies, histograms, counts."""

from __future__ import annotations

import errno
import json
import os
from typing import Any

import pytest

from kprobe.cli import main
from kprobe.tracing.live import RawPipe
from kprobe_text.figures.latencies import Latencies

from .test_histograms import has_hist
from .text import define

NUMBERS = "p:h ksys_fadvise64_64 a=%di:u32 b=%si:s64 c=%dx:x64"
CALLS = ((3, -5), (3, 4096), (1000, -5), (7, 0), (3, 4097))


class Working:
    """The tracefs of a machine that begins to work once tracing is on; `refuses` files whose name ends so."""

    def __init__(self, tracefs: Any, play: Any, refuses: str = "\0") -> None:
        self._tracefs = tracefs
        self._refuses = refuses
        self.play = play

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tracefs, name)

    def write(self, path: str, data: bytes, *, truncate: bool = False) -> None:
        if path.endswith(self._refuses):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        self._tracefs.write(path, data, truncate=truncate)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "of", "shown"),
    [
        (
            "--hist",
            "a",
            "h a: 5 numbers, 3 .. 1000, mean 203.2\n"
            "         2 .. 3           3\n"
            "         4 .. 7           1\n"
            "        8 .. 15           0\n"
            "       16 .. 31           0\n"
            "       32 .. 63           0\n"
            "      64 .. 127           0\n"
            "     128 .. 255           0\n"
            "     256 .. 511           0\n"
            "    512 .. 1023           1\n",
        ),
        (
            "--hist",
            "b",
            "h b: 5 numbers, -5 .. 4097, mean 1637\n"
            "        -7 .. -4           2\n"
            "        -3 .. -2           0\n"
            "        -1 .. -1           0\n"
            "          0 .. 0           1\n"
            "    4096 .. 8191           2\n",
        ),
        ("--count", "a", "h, by a\n         3  3\n         1  7\n         1  1000\n"),
        ("--count", "b", "h, by b\n         2  -5\n         1  0\n         1  4096\n         1  4097\n"),
        ("--count", "pid", "h, by pid\n         5  {pid}\n"),
    ],
)
def test_the_kernel_counts_as_the_tracer_does(
    tracefs: Any, workload: Any, capfd: Any, option: str, of: str, shown: str
) -> None:
    def play() -> None:
        for fd, offset in CALLS:
            workload.fadvise(fd, offset, 1)

    words = ["-F", option, of, "-d", "0.01", NUMBERS, f"common_pid == {workload.pid}"]
    kernel = "counted by the kernel" if has_hist(tracefs) else "from raw pages"
    for refuses, who in (("\0", kernel), ("/trigger", "from raw pages")):
        assert main(words, tracefs=Working(tracefs, play, refuses)) == 0
        out, err = capfd.readouterr()
        assert out == shown.format(pid=workload.pid)
        assert f", {option[2:]} {of}, {who}" in err
    assert tracefs.read("kprobe_events") == b""


@pytest.mark.parametrize(("option", "more"), [("--hist", ""), ("--count", "; comm, pid, cpu, stacktrace need none")])
def test_a_field_that_no_event_has_is_told_before_anything_is_traced(
    tracefs: Any, capfd: Any, option: str, more: str
) -> None:
    assert main(["-F", option, "task", "-d", "60", NUMBERS], tracefs=tracefs) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err == f"ERROR: no traced event has a field 'task': their fields are a, b, c{more}\n"
    assert tracefs.read("kprobe_events") == b""


@pytest.mark.slow
def test_json_has_the_values_as_the_format_types_them(tracefs: Any, workload: Any, capfd: Any, release: str) -> None:
    definition = "p:h ksys_fadvise64_64 a=%di:s32 b=%si:x64 s=+0(%dx):string none=+0(%cx):string w=+0(%dx):u8[2]"
    data = b'a "b=1\n\xff\0'

    def play() -> None:
        workload.fadvise(-2, 255, 0x10000000, data=data)

    words = ["-F", "--json", "-d", "0.01", definition, f"common_pid == {workload.pid}"]
    assert main(words, tracefs=Working(tracefs, play)) == 0
    began, event, ended = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert (began["type"], began["state"], began["source"]) == ("status", "began", "raw")
    assert [one["name"] for one in began["events"]] == ["h"]
    assert event["fields"] == {"a": -2, "b": 255, "s": 'a "b=1\n\udcff', "none": None, "w": [97, 32]}
    assert (event["type"], event["name"], event["pid"], event["complete"]) == ("event", "h", workload.pid, True)
    assert "guessed" not in event
    faults = 1 if release.startswith("5.10.") else 0  # of `none`: test_misses.py
    assert (ended["state"], ended["events"], ended["lost"], ended["missed"]) == ("ended", 1, 0, faults)


def test_a_refusal_is_an_object(tracefs: Any, capfd: Any) -> None:
    assert main(["-F", "--json", "p:h ksys_fadvise64_64 s=%si:string"], tracefs=tracefs) == 1
    (error,) = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert (error["type"], error["kind"], error["errno"]) == ("error", "Refused", errno.EINVAL)
    assert error["says"] == "String accepts only memory argument"
    assert error["shown"][error["column"] :] == "string"


@pytest.mark.slow
def test_latencies_are_those_of_the_kernels_own_pairing(tracefs: Any, workload: Any) -> None:
    """A synthetic event has each call's microseconds, by hist triggers; their sum is ours but for the rounding."""
    if not has_hist(tracefs):
        pytest.skip("no hist triggers")
    define(tracefs, "p:in ksys_fadvise64_64 stack_pointer=$stack", "r:out ksys_fadvise64_64 stack_pointer=$stack")
    tracefs.write("synthetic_events", b"took u64 us; int pid\n")
    mine = f" if common_pid == {workload.pid}"
    triggers = (
        ("kprobes/in", f"hist:keys=common_pid:start=common_timestamp.usecs{mine}"),
        (
            "kprobes/out",
            "hist:keys=common_pid:us=common_timestamp.usecs-$start:onmatch(kprobes.in).trace(took,$us,common_pid)"
            + mine,
        ),
        ("synthetic/took", "hist:keys=pid:vals=us"),
    )
    for event, trigger in triggers:
        tracefs.write(f"events/{event}/trigger", trigger.encode())
    for name in ("in", "out"):
        tracefs.write(f"events/kprobes/{name}/enable", b"1")
    calls = 200
    for number in range(calls):
        workload.fadvise(3, number, 1)
    for name in ("in", "out"):
        tracefs.write(f"events/kprobes/{name}/enable", b"0")
    figure = Latencies()
    pipe = RawPipe(tracefs)
    for record in pipe.drain():
        if getattr(record, "pid", None) == workload.pid:
            figure.add(record)
    pipe.close()
    figure.end()
    (ours,) = figure.objects()
    theirs = tracefs.read("events/synthetic/took/hist").decode()
    for event, trigger in reversed(triggers):
        tracefs.write(f"events/{event}/trigger", b"!" + trigger.encode())
    tracefs.write("synthetic_events", b"!took u64 us; int pid\n")
    entry = next(line for line in theirs.splitlines() if line.startswith("{ pid:"))
    hits, microseconds = (int(entry.partition(f"{word}:")[2].split()[0]) for word in ("hitcount", " us"))
    assert ours["calls"] == hits == calls
    if getattr(tracefs, "kernel", None) is None:  # a simulated kernel looks at its clock again for each trigger
        assert abs(int(str(ours["total"])) / 1000 - microseconds) <= calls
    assert [ours[end] for end in ("unreturned", "cut", "running", "unentered")] == [0, 0, 0, 0]
