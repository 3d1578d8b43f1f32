"""The ring buffer: which entries stay, and how many were lost, as a real 6.1 kernel counted them."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprobe_sim import SimulatedKernel, Task
from kprobe_sim.records.ring import PAGE_DATA, CpuBuffer, RingBuffer, event_length


@pytest.fixture
def busy() -> SimulatedKernel:
    """The recording 05_lost: buffers of two pages, two tasks on two CPUs that open 400 missing files each."""
    kernel = SimulatedKernel("6.1", cpus=2)
    tracefs = kernel.tracefs
    tracefs.write("kprobe_events", b"p:ent do_sys_openat2 dfd=%di:s32 s=+0(%si):string flags=%dx:x32")
    tracefs.write("kprobe_events", b"r:ret do_sys_openat2 ret=$retval:s32 raw=$retval")
    tracefs.write("events/kprobes/enable", b"1")
    tracefs.write("buffer_size_kb", b"1")
    return kernel


def open_files(kernel: SimulatedKernel) -> None:
    for cpu in (0, 1):
        for number in range(400):
            kernel.call(
                "do_sys_openat2",
                task=Task(954 + cpu, f"par {cpu}"),
                args=(0xFFFFFF9C, f"/tmp/p{cpu}_{number}", 0xB73E00),
                returns=-2,
                caller="__x64_sys_openat+0x6a",
                cpu=cpu,
            )


def stats(kernel: SimulatedKernel, cpu: int = 0) -> dict[str, str]:
    lines = kernel.tracefs.read(f"per_cpu/cpu{cpu}/stats").decode().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def test_overwriting_keeps_the_newest_pages(busy: SimulatedKernel) -> None:
    assert busy.tracefs.read("buffer_size_kb") == b"7\n"
    open_files(busy)
    counted = stats(busy)
    assert (counted["entries"], counted["overrun"], counted["dropped events"]) == ("121", "679", "0")
    lines = busy.tracefs.read("per_cpu/cpu0/trace").decode().splitlines()
    assert lines[12].endswith(": ret: (__x64_sys_openat+0x6a/0xa0 <- do_sys_openat2) ret=-2 raw=0xfffffffffffffffe")
    assert 's="/tmp/p0_340"' in lines[13]
    assert len(lines) == 12 + 121


def test_the_counts_and_the_start_of_the_other_cpu_are_in_the_text(busy: SimulatedKernel) -> None:
    open_files(busy)
    lines = busy.tracefs.read("trace").decode().splitlines()
    assert lines[2] == "# entries-in-buffer/entries-written: 242/1600   #P:2"
    assert lines[12 + 121] == "##### CPU 1 buffer started ####"
    assert lines[12 + 122].startswith("           par 1-955     [001] .....")


def test_a_reader_is_told_what_was_lost(busy: SimulatedKernel) -> None:
    open_files(busy)
    with busy.tracefs.stream("trace_pipe") as stream:
        text = stream.read(1).decode()
        while "par 1" not in text:
            text += stream.read(1).decode()
    lines = text.splitlines()
    assert lines[0] == "CPU:0 [LOST 679 EVENTS]"
    assert lines[1].startswith("           par 0-954     [000] .....")
    assert lines[122] == "CPU:1 [LOST 679 EVENTS]"


def test_without_overwriting_the_oldest_stay(busy: SimulatedKernel) -> None:
    busy.tracefs.write("options/overwrite", b"0")
    open_files(busy)
    counted = stats(busy)
    assert (counted["entries"], counted["overrun"], counted["dropped events"]) == ("194", "0", "606")


def test_consumed_entries_leave_both_counts(busy: SimulatedKernel) -> None:
    open_files(busy)
    with busy.tracefs.open("trace_pipe", 0) as pipe:
        pipe.read(1)  # formats entries until there is one byte: one entry, with the line on what was lost
    assert stats(busy)["read events"] == "1"
    assert b"entries-in-buffer/entries-written: 241/1599" in busy.tracefs.read("trace")


@pytest.mark.parametrize(("size", "length"), [(0, 8), (4, 8), (8, 16), (16, 20), (28, 32), (112, 116), (113, 124)])
def test_length_of_an_event(size: int, length: int) -> None:
    assert event_length(size) == length


@given(
    st.lists(st.tuples(st.integers(1, 600), st.integers(0, 1 << 28), st.booleans()), max_size=300),
    st.integers(2, 5),
    st.booleans(),
)
def test_nothing_is_lost_without_being_counted(
    writes: list[tuple[int, int, bool]], pages: int, overwrite: bool
) -> None:
    buffer = CpuBuffer(0, pages)
    stamp, stored, refused, read, lost = 0, 0, 0, 0, 0
    for size, pause, reads in writes:
        stamp += pause
        if buffer.write(stamp, bytes(size), overwrite):
            stored += 1
        else:
            refused += 1
        if reads and (entry := buffer.peek()) is not None:
            lost += entry.lost
            buffer.consume()
            read += 1
        assert buffer.entries == len(list(buffer.pending())) == stored - read - buffer.overrun
        assert buffer.unread_bytes <= (pages + 1) * PAGE_DATA
    assert buffer.dropped == refused
    assert lost <= buffer.overrun


@given(
    st.lists(st.tuples(st.sampled_from([1, 24, 24, 24, 25, 600]), st.integers(1, 200)), min_size=1, max_size=6),
    st.integers(0, 100),
    st.tuples(st.integers(0, 1200), st.integers(0, 1200)),
)
def test_records_of_one_size_or_of_several_are_those_that_were_written(
    runs: list[tuple[int, int]], consumed: int, places: tuple[int, int]
) -> None:
    written = [bytes([number % 251]) * size for size, count in runs for number in range(count)]
    buffer = CpuBuffer(0, 1000)
    for stamp, data in enumerate(written):
        buffer.write(stamp, data, True)
    for _ in range(consumed):
        if buffer.peek() is not None:
            buffer.consume()
    left = list(enumerate(written))[consumed:]
    unread = buffer.pending()
    assert [(entry.stamp, entry.data) for entry in unread] == left
    start, end = sorted(places)
    assert [(entry.stamp, entry.data) for entry in unread[start:end]] == left[start:end]


def test_entries_of_all_cpus_come_in_order_of_time() -> None:
    buffer = RingBuffer(3, 2)
    for stamp, cpu in [(5, 2), (1, 0), (3, 1), (6, 2), (4, 0)]:
        buffer.write(cpu, stamp, b"x")
    assert [entry.stamp for entry in buffer.pending()] == [1, 3, 4, 5, 6]
    assert [entry.cpu for entry in buffer.pending()] == [0, 1, 0, 2, 2]


@pytest.mark.parametrize("size", [16, 36, 100])
def test_a_buffer_takes_at_most_twice_its_bytes(size: int) -> None:
    """In memory, however many records there are: no object for each of them."""
    count = 20_000
    data = bytes(size)
    tracemalloc.start()
    try:
        buffer = CpuBuffer(0, 1 << 16)
        for stamp in range(count):
            buffer.write(stamp << 20, data, True)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert buffer.entries == count
    assert used <= 2 * size * count


def test_a_record_that_no_64_bits_can_stamp() -> None:
    buffer = CpuBuffer(0, 2)
    for stamp in (1, 1 << 70, 2):
        buffer.write(stamp, b"x", True)
    assert [entry.stamp for entry in buffer.pending()] == [1, 1 << 70, 2]
