"""Snapshot, CPU mask and raw pages, held to what a real 6.1 kernel gave."""

from __future__ import annotations

import errno
import json
import os
import re
import struct
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kprobe_sim import SimulatedKernel, Task

FIXTURES = Path(__file__).parents[2] / "fixtures" / "control"
PROBE = b"p:ent do_sys_openat2 dfd=%di:s32 s=+0(%si):ustring flags=%dx:x32"
PAGE = 4096


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FIXTURES / f"{name}.jsonl").read_text().splitlines()]


def written(kernel: SimulatedKernel, path: str, text: str) -> int | str:
    try:
        with kernel.tracefs.open(path, os.O_WRONLY) as file:
            return file.write(text.encode())
    except OSError as error:
        return errno.errorcode[error.errno or 0]


def test_the_cpu_mask() -> None:
    kernel = SimulatedKernel("6.1", cpus=2)
    for row in rows("tracing_cpumask"):
        assert written(kernel, "tracing_cpumask", row["input"]) == row["result"], row
        assert kernel.tracefs.read("tracing_cpumask").decode() == row["readback"], row


def test_a_masked_cpu_records_nothing() -> None:
    kernel = SimulatedKernel("6.1", cpus=2)
    kernel.tracefs.write("kprobe_events", PROBE)
    kernel.tracefs.write("events/kprobes/enable", b"1")
    kernel.tracefs.write("tracing_cpumask", b"2")
    for cpu in (0, 1):
        kernel.call("do_sys_openat2", args=(0, f"/on{cpu}", 0), cpu=cpu)
    text = kernel.tracefs.read("trace")
    assert b"/on1" in text
    assert b"/on0" not in text


RECORD = re.compile(r"-(\d+) +\[(\d+)\] \S+ +(\d+)\.(\d+): ent: .* s=\"(.*)\" flags=(\w+)")


def test_a_snapshot_is_taken_emptied_and_freed() -> None:
    kernel = SimulatedKernel("6.1", cpus=2)
    kernel.tracefs.write("kprobe_events", PROBE)
    steps = rows("snapshot")
    taken = next(number for number, row in enumerate(steps) if row["path"] == "trace") - 1
    for number, row in enumerate(steps):
        if number == taken:
            kernel.tracefs.write("events/kprobes/ent/enable", b"1")
            for pid, cpu, seconds, micros, path, flags in RECORD.findall(steps[taken + 2]["result"]):
                kernel.call(
                    "do_sys_openat2",
                    task=Task(int(pid), "workload"),
                    args=(-100, path, int(flags, 16)),
                    cpu=int(cpu),
                    at=int(seconds + micros) * 1000,
                )
            kernel.tracefs.write("events/kprobes/ent/enable", b"0")
        if row["write"] is not None:
            assert written(kernel, row["path"], row["write"]) == row["result"], row
        elif row["path"] != "buffer_size_kb":
            assert kernel.tracefs.read(row["path"]).decode() == row["result"], row


def test_an_instance_has_a_snapshot_of_its_own() -> None:
    kernel = SimulatedKernel("6.1")
    kernel.tracefs.mkdir("instances/i")
    kernel.tracefs.write("instances/i/trace_marker", b"kept")
    kernel.tracefs.write("instances/i/snapshot", b"1")
    assert b": kept\n" in kernel.tracefs.read("instances/i/snapshot")
    assert b": kept\n" not in kernel.tracefs.read("instances/i/trace")
    assert b"* Snapshot is freed *" in kernel.tracefs.read("snapshot")
    kernel.tracefs.rmdir("instances/i")


class Event(NamedTuple):
    stamp: int
    data: bytes


class Decoded(NamedTuple):
    """A page, read by a decoder that shares nothing with the simulator."""

    stamp: int
    size: int
    flags: int
    missed: int
    events: tuple[Event, ...]


def decode(page: bytes) -> Decoded:
    stamp, commit = struct.unpack_from("<QQ", page)
    size, flags = commit & 0xFFFFF, commit >> 30 & 3
    missed = struct.unpack_from("<Q", page, 16 + size)[0] if flags & 1 else 0
    at, now, events = 16, stamp, []
    while at < 16 + size:
        (word,) = struct.unpack_from("<I", page, at)
        kind, delta = word & 31, word >> 5
        at += 4
        if kind == 30:
            now += delta + (struct.unpack_from("<I", page, at)[0] << 27)
            at += 4
            continue
        if kind == 29:
            at += struct.unpack_from("<I", page, at)[0]
            continue
        now += delta
        length = kind * 4
        if not kind:
            length = struct.unpack_from("<I", page, at)[0] - 4
            at += 4
        data = page[at : at + length]
        at += length
        location = struct.unpack_from("<I", data, 20)[0] if struct.unpack_from("<H", data)[0] > 100 else 0
        if location:  # what comes after the string fills up to four bytes, with anything
            data = data[2 : (location & 0xFFFF) + (location >> 16)]
        events.append(Event(now, data))
    assert at == 16 + size
    return Decoded(stamp, size, flags, missed, tuple(events))


def pages(chunks: list[tuple[int, bytes]]) -> dict[int, list[Decoded]]:
    """Join what was read of each CPU, and decode page by page."""
    joined = {cpu: b"".join(chunk for which, chunk in chunks if which == cpu) for cpu in (0, 1)}
    return {
        cpu: [decode(data[at : at + PAGE]) for at in range(0, len(data) - PAGE + 1, PAGE)]
        for cpu, data in joined.items()
    }


def answer(raw: Any, size: int) -> bytes | str:
    """Read once; return the bytes, or the name of the errno."""
    try:
        data: bytes = raw.read(size)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return data


def opened(kernel: SimulatedKernel, cpu: int, event: Event, at: int | None = None) -> None:
    (pid,) = struct.unpack_from("<i", event.data, 2)
    location, flags = struct.unpack_from("<II", event.data, 18)
    start = (location & 0xFFFF) - 2
    kernel.call(
        "do_sys_openat2",
        task=Task(pid, "workload"),
        args=(-100, event.data[start:-1], flags),
        cpu=cpu,
        at=event.stamp if at is None else at,
    )


RAW = [row for row in rows("raw") if row["name"] != "marker"]


def fired(kernel: SimulatedKernel, cpu: int, decoded: list[Decoded], *, before: bool) -> None:
    """Let the events of recorded pages fire, those that were lost, and one `before` them that is read elsewhere."""
    events = [event for page in decoded for event in page.events]
    lost = sum(page.missed for page in decoded)
    for number in range(lost):
        opened(kernel, cpu, events[0], events[0].stamp - lost + number)
    if before and events:
        opened(kernel, cpu, events[0], events[0].stamp - 1_000)
    for event in events:
        opened(kernel, cpu, event)


def read_raw(kernel: SimulatedKernel, cpu: int, reads: list[Any]) -> list[bytes]:
    """Read a CPU's pages in the recorded sizes; the answers are as long, and the errors the same."""
    chunks: list[bytes] = []
    with kernel.tracefs.open(f"per_cpu/cpu{cpu}/trace_pipe_raw", os.O_RDONLY | os.O_NONBLOCK) as raw:
        for size, wanted in (rest for which, *rest in reads if which == cpu):
            chunk = answer(raw, size)
            if isinstance(chunk, str):
                assert chunk == wanted
            else:
                assert len(chunk) == wanted[0]
                chunks.append(chunk)
    return chunks


@pytest.mark.parametrize("row", RAW, ids=lambda row: row["name"])
def test_raw_pages(row: dict[str, Any]) -> None:
    recorded = [
        (cpu, bytes.fromhex(got[1]).ljust(got[0], b"\0")) for cpu, _, got in row["reads"] if not isinstance(got, str)
    ]
    expected = pages(recorded)
    kernel = SimulatedKernel("6.1", cpus=2)
    kernel.tracefs.write("kprobe_events", PROBE)
    kernel.tracefs.write("events/kprobes/ent/enable", b"1")
    if row["name"] == "lost":
        kernel.tracefs.write("buffer_size_kb", b"1")
    for cpu, decoded in expected.items():
        fired(kernel, cpu, decoded, before=row["name"] == "after_pipe")
    if row["name"] == "after_pipe":
        with kernel.tracefs.open("trace_pipe", os.O_RDONLY | os.O_NONBLOCK) as pipe:
            assert pipe.read(100).endswith(b' s="/p" f')
    ours = pages([(cpu, chunk) for cpu in (0, 1) for chunk in read_raw(kernel, cpu, row["reads"])])
    if row["name"] == "after_pipe":  # the time of the entry that was read before isn't known
        ours = {cpu: [page._replace(stamp=0) for page in decoded] for cpu, decoded in ours.items()}
        expected = {cpu: [page._replace(stamp=0) for page in decoded] for cpu, decoded in expected.items()}
    assert ours == expected
    for cpu, text in enumerate(row["stats"] or ()):
        counts = dict(line.split(": ") for line in text.splitlines())
        stats = kernel.tracefs.read(f"per_cpu/cpu{cpu}/stats").decode()
        assert all(f"{name}: {counts[name]}\n" in stats for name in ("entries", "overrun", "bytes", "read events"))


def test_a_pause_becomes_a_time_extend_and_a_rest_padding() -> None:
    kernel = SimulatedKernel("6.1")
    with kernel.condition:
        for at in (1_000_000_000, 1_000_000_500, 9_000_000_500):
            kernel.top.write(0, struct.pack("<HBBi4s", 5, 0, 0, 1, b"mark"), at)
    with kernel.tracefs.open("per_cpu/cpu0/trace_pipe_raw", os.O_RDONLY) as raw:
        page = raw.read(PAGE)
    assert [event.stamp for event in decode(page).events] == [1_000_000_000, 1_000_000_500, 9_000_000_500]
    assert struct.unpack_from("<II", page, 16 + 32) == ((8_000_000_000 & (1 << 27) - 1) << 5 | 30, 8_000_000_000 >> 27)
    with kernel.condition:
        kernel.top.clear()
        for number in range(600):
            kernel.top.write(0, bytes(24), number)
    with kernel.tracefs.open("trace_pipe", os.O_RDONLY) as pipe:
        pipe.read(1)
    with kernel.tracefs.open("per_cpu/cpu0/trace_pipe_raw", os.O_RDONLY) as raw:
        page = raw.read(PAGE)
    # a full page holds 145 of these and 20 bytes more, which only a page that was read in part shows
    assert decode(page).size == 144 * 28 + 20
    assert len(decode(page).events) == 144
    assert struct.unpack_from("<II", page, 16 + 144 * 28) == (1 << 5 | 29, 16)


def test_text_and_raw_consume_the_same_entries() -> None:
    kernel = SimulatedKernel("6.1")
    for text in (b"one", b"two"):
        kernel.tracefs.write("trace_marker", text)
    with kernel.tracefs.open("trace_pipe", os.O_RDONLY | os.O_NONBLOCK) as pipe:
        assert pipe.read(1) == b" "
    with kernel.tracefs.open("per_cpu/cpu0/trace_pipe_raw", os.O_RDONLY | os.O_NONBLOCK) as raw:
        (event,) = decode(raw.read(PAGE)).events
        assert event.data[16:20] == b"two\n"
        with pytest.raises(BlockingIOError):
            raw.read(PAGE)
    assert b"0/0" in kernel.tracefs.read("trace")


def test_headers_are_as_recorded() -> None:
    tracefs = SimulatedKernel("6.1").tracefs
    assert tracefs.read("events/header_page").endswith(b"\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n")
    assert b"\tpadding     : type == 29\n\ttime_extend : type == 30\n" in tracefs.read("events/header_event")


def test_thread_groups_are_saved_with_record_tgid() -> None:
    kernel = SimulatedKernel("6.1")
    kernel.tracefs.write("kprobe_events", PROBE)
    kernel.tracefs.write("events/kprobes/enable", b"1")
    kernel.call("do_sys_openat2", task=Task(7, "early", tgid=3))
    assert kernel.tracefs.read("saved_tgids") == b""
    kernel.tracefs.write("options/record-tgid", b"1")
    kernel.call("do_sys_openat2", task=Task(9, "thread", tgid=3))
    kernel.call("do_sys_openat2", task=Task(3, "main"))
    assert kernel.tracefs.read("saved_tgids") == b"3 3\n9 3\n"
