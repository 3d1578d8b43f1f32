"""`kprobe parse --summary` and `--perfetto`."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import termios
from array import array
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

TRACES = Path(__file__).parents[3] / "fixtures" / "text"


def line(microseconds: int, body: str, task: str = "bash", pid: int = 42, cpu: int = 1) -> str:
    return f"{task:>16}-{pid:<7} [{cpu:03d}] .....    11.{microseconds:06d}: {body}\n"


# f calls itself and g; another task enters f in between; g's return isn't there once
CALLS = "".join(
    [
        line(100, 'f_in: (f+0x0/0x10) n=5 s="a"'),
        line(110, "f_in: (f+0x0/0x10) n=4"),
        line(110, "g_in: (g+0x0/0x10)"),
        line(115, "f_in: (f+0x0/0x10) n=-3", "sh", 43, 0),
        line(116, "g_out: (f+0x5/0x10 <- g) ret=0"),
        line(130, "f_out: (f+0x9/0x10 <- f) ret=1"),
        line(140, "f_out: (h+0x9/0x10 <- f) ret=2"),
        "CPU:0 [LOST 7 EVENTS]\n",
        line(165, "f_out: (h+0x9/0x10 <- f) ret=1000", "sh", 43, 0),
        line(170, "g_in: (g+0x0/0x10)"),
        line(180, "mid: (f+0x4/0x10) ax=0xffff888000000000"),
        line(190, "g_out: (h+0x9/0x10 <- g) ret=0", "sh", 43, 0),
    ]
)


def kprobe_parse(*words: str | Path, data: str = "", status: int = 0) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "kprobe", "parse", *map(str, words)],
        input=data.encode(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done.stdout.decode(), done.stderr.decode()


def paragraph(text: str, first: str) -> list[str]:
    (found,) = (part for part in text.split("\n\n") if part.startswith(first))
    return [" ".join(row.split()) for row in found.splitlines()]


def test_rates_by_event_and_task() -> None:
    out, err = kprobe_parse("--summary", data=CALLS)
    assert err == ""
    assert (
        out.splitlines()[0]
        == "11 events in 0.000090 s; 12 records that a string could have forged, 7 events lost by the kernel"
    )
    assert paragraph(out, "     COUNT") == [
        "COUNT PER SECOND EVENT, TASK",
        "2 22222.2 f_in bash",
        "2 22222.2 f_out bash",
        "2 22222.2 g_in bash",
        "1 11111.1 f_in sh",
        "1 11111.1 f_out sh",
        "1 11111.1 g_out bash",
        "1 11111.1 g_out sh",
        "1 11111.1 mid bash",
    ]


def test_histograms_of_numbers() -> None:
    out, _ = kprobe_parse("--summary", data=CALLS)
    assert paragraph(out, "f_in n: ") == [
        "f_in n: 3 numbers, -3 .. 5, mean 2",
        "-3 .. -2 1",
        "-1 .. -1 0",
        "0 .. 0 0",
        "1 .. 1 0",
        "2 .. 3 0",
        "4 .. 7 2",
    ]
    assert paragraph(out, "mid ax: ")[1] == "9223372036854775808 .. 18446744073709551615 1"


def test_latencies_of_nested_and_recursive_calls() -> None:
    """f: 20 us within 40 us; g: 6 us. The calls that were open where events were lost aren't paired."""
    out, _ = kprobe_parse("--summary", data=CALLS)
    assert paragraph(out, "f, from entry") == [
        "f, from entry to return",
        "calls mean p50 p90 p99 max",
        "2 30.000 us 20.000 us 40.000 us 40.000 us 40.000 us",
        "16.38 us .. 32.77 us 1",
        "32.77 us .. 65.54 us 1",
        "1 broken off by lost events, 1 returned without an entry seen",
    ]
    assert paragraph(out, "g, from entry")[1:] == [
        "calls mean p50 p90 p99 max",
        "1 6.000 us 6.000 us 6.000 us 6.000 us 6.000 us",
        "4.096 us .. 8.192 us 1",
        "1 not returned by the end, 1 returned without an entry seen",
    ]


def test_what_is_not_sure_is_summed_up_too() -> None:
    out, _ = kprobe_parse("--summary", TRACES / "6.1" / "02_comms.trace")
    assert out.startswith("142 events in 0.497834 s; 1 event not all understood, 142 records that a string could")
    assert kprobe_parse("--summary", data="odd\n")[0].startswith("0 events in 0.000000 s; 1 line not understood\n")


def test_calls_do_not_go_on_in_another_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(line(100, "f_in: (f+0x0/0x10)"))
    (tmp_path / "b").write_text(line(900, "f_out: (g+0x9/0x10 <- f)") + line(950, "f_in: (f+0x0/0x10)"))
    out, _ = kprobe_parse("--summary", tmp_path / "a", tmp_path / "b")
    assert out.startswith("3 events in 0.000050 s\n")
    assert "from entry to return" not in out


def test_rows_are_bounded() -> None:
    text = "".join(line(i, "e: (f+0x4/0x10) a=1", f"t{i}", i + 1) for i in range(1100))
    rows = paragraph(kprobe_parse("--summary", data=text)[0], "     COUNT")
    assert len(rows) == 1 + 1024 + 1
    assert rows[1].split()[::2] == ["76", "(others)"]


def drained(pipe: int) -> None:
    """Wait until all that was written into a pipe has been read."""
    left = array("i", [1])
    while left[0]:
        os.sched_yield()
        fcntl.ioctl(pipe, termios.FIONREAD, left)


def test_an_interrupt_ends_a_pipe_and_gives_the_sum() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "kprobe", "parse", "--summary"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    assert process.stdin is not None
    for text in (CALLS, "\n"):  # once the second is taken, the first has been counted
        process.stdin.write(text.encode())
        drained(process.stdin.fileno())
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate()
    assert out.startswith(b"11 events in 0.000090 s; ")
    assert process.returncode == 130


@pytest.fixture
def trace(tmp_path: Path) -> Any:
    path = tmp_path / "trace.pftrace"
    assert kprobe_parse("--perfetto", path, data=CALLS) == (
        "",
        "NOTE: 12 records that a string could have forged, 7 events lost by the kernel\n",
    )
    read = perfetto_trace_pb2.Trace()
    read.ParseFromString(path.read_bytes())
    assert not any(len(UnknownFieldSet(part)) for packet in read.packet for part in (packet, packet.track_event))
    return read


def test_tracks_of_tasks_and_cpus(trace: Any) -> None:
    described = [packet.track_descriptor for packet in trace.packet if packet.HasField("track_descriptor")]
    threads = {(it.thread.tid, it.thread.thread_name) for it in described if it.HasField("thread")}
    assert threads == {(42, "bash"), (43, "sh")}
    assert [it.name for it in described if not it.HasField("thread")] == ["CPU 0"]


def test_calls_are_slices_and_all_else_instants(trace: Any) -> None:
    """Sorted by time, each end is that of the slice that began last; events of one microsecond keep their order."""
    events = [packet for packet in trace.packet if packet.HasField("track_event")]
    tasks = {
        packet.track_descriptor.uuid: packet.track_descriptor.thread.thread_name or packet.track_descriptor.name
        for packet in trace.packet
        if packet.HasField("track_descriptor")
    }
    kinds = {1: "begin", 2: "end", 3: "instant"}
    shown = [
        (
            it.timestamp - 11_000_000_000,
            tasks[it.track_event.track_uuid],
            kinds[it.track_event.type],
            it.track_event.name,
        )
        for it in sorted(events, key=lambda it: it.timestamp)
    ]
    assert shown == [
        (100_000, "bash", "begin", "f"), (110_000, "bash", "begin", "f"), (110_001, "bash", "begin", "g"),
        (115_000, "sh", "begin", "f"), (116_000, "bash", "end", ""), (130_000, "bash", "end", ""),
        (140_000, "bash", "end", ""), (140_000, "CPU 0", "instant", "lost events"), (165_000, "sh", "end", ""),
        (170_000, "bash", "instant", "g_in"), (180_000, "bash", "instant", "mid"), (190_000, "sh", "instant", "g_out"),
    ]  # fmt: skip


def test_arguments_are_annotations(trace: Any) -> None:
    events = [packet.track_event for packet in trace.packet if packet.HasField("track_event")]
    (first,) = (it for it in events if any(note.string_value == "a" for note in it.debug_annotations))
    said = {it.name: it.string_value or it.int_value for it in first.debug_annotations}
    assert said == {"n": 5, "s": "a", "cpu": 1, "event": "f_in"}
    (mid,) = (it for it in events if it.name == "mid")
    assert mid.debug_annotations[0].uint_value == 0xFFFF888000000000


def said(notes: Any) -> dict[str, object]:
    return {note.name: said(note.dict_entries) or note.string_value or note.int_value for note in notes}


def test_what_a_return_says_is_beside_what_its_entry_says(trace: Any) -> None:
    """Both ends of a slice share one set of annotations, where each key has one value."""
    ends = [said(it.track_event.debug_annotations) for it in trace.packet if it.track_event.type == 2]
    assert ends[0] == {"return": {"ret": 0, "cpu": 1, "event": "g_out", "caller": "f+0x5/0x10"}}
    assert [list(end) for end in ends] == [["return"]] * 4


def test_arguments_called_as_what_each_event_says_and_what_programs_wrote(tmp_path: Path) -> None:
    path = tmp_path / "trace.pftrace"
    text = (
        line(100, "ev: (f+0x8/0x10) cpu=7 a={1,-2}")
        + line(110, "# 1 buf: 61 62")
        + line(120, "nul: (f+0x8/0x10) c='\0'")
    )
    kprobe_parse("--perfetto", path, data=text)
    read = perfetto_trace_pb2.Trace()
    read.ParseFromString(path.read_bytes())
    event, raw, nul = (it.track_event for it in read.packet if it.HasField("track_event"))
    said = {it.name: it for it in event.debug_annotations}
    assert (said["cpu"].int_value, said["event"].string_value) == (7, "ev")
    assert [it.int_value for it in said["a"].array_values] == [1, -2]
    assert [(it.name, it.int_value) for it in said["line"].dict_entries] == [("cpu", 1)]
    assert raw.name == "raw marker"
    assert [(it.name, it.int_value or it.string_value) for it in raw.debug_annotations] == [
        ("identifier", 1), ("data", "6162"),
    ]  # fmt: skip
    assert nul.debug_annotations[0].string_value == "␀"  # where the trace processor would end the text


def test_every_recorded_trace_is_one_for_perfetto(tmp_path: Path) -> None:
    path = tmp_path / "trace.pftrace"
    kprobe_parse("--perfetto", path, *sorted((TRACES / "6.1").glob("*.trace"))[:40])
    read = perfetto_trace_pb2.Trace()
    read.ParseFromString(path.read_bytes())
    assert len(read.packet) > 400
    described = {it.track_descriptor.uuid for it in read.packet if it.HasField("track_descriptor")}
    assert {it.track_event.track_uuid for it in read.packet if it.HasField("track_event")} <= described


@pytest.mark.parametrize(
    "words",
    [["--summary", "--format", "csv"], ["--perfetto", "x", "--summary"], ["--perfetto", "x", "--format=ndjson"]],
)
def test_one_of_them_at_a_time(words: list[str]) -> None:
    assert "exclude each other" in kprobe_parse(*words, status=2)[1]


def test_what_cannot_be_written_or_read(tmp_path: Path) -> None:
    path = tmp_path / "no" / "trace"
    assert kprobe_parse("--perfetto", path, data=CALLS, status=1)[1] == f"ERROR: {path}: No such file or directory\n"
    assert "ERROR: /no/such: No such file" in kprobe_parse("--summary", "/no/such", status=1)[1]
