"""What a reader in the middle of `trace` gets when something changes: each page is made when it is read, not before."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

import pytest

from kprobe_sim import SimulatedKernel, Task

CAT = Task(42, "cat")
SECOND = 10**9
COUNT = 300
PAGE = 4096
HEAD = 12  # lines


def recorded(kernel: SimulatedKernel, first: int = 0) -> None:
    """Let the probe be hit, at each microsecond once."""
    for number in range(first, first + COUNT):
        kernel.call("vfs_read", task=CAT, args=(number,), at=5 * SECOND + 1000 * number)


def started(definition: bytes = b"p:probe vfs_read n=%di:u32") -> SimulatedKernel:
    """Return a kernel with a trace of COUNT lines."""
    kernel = SimulatedKernel("6.1")
    kernel.tracefs.write("kprobe_events", definition)
    kernel.tracefs.write("events/kprobes/enable", b"1")
    recorded(kernel)
    return kernel


def line(number: int) -> bytes:
    return b"             cat-42      [000] .....     5.%06d: probe: (vfs_read+0x0/0x310) n=%d\n" % (number, number)


def changed(kernel: SimulatedKernel, change: Callable[[SimulatedKernel], object]) -> tuple[list[bytes], list[bytes]]:
    """Return the lines of the first page, and those that come after the change; the header is left out.

    The first of the second page was made before: it is the one that the first page had no room for.
    """
    with kernel.tracefs.open("trace", os.O_RDONLY) as file:
        page = file.read(PAGE)
        assert page.endswith(b"\n")
        change(kernel)
        rest = b""
        while piece := file.read(PAGE):
            rest += piece
    return page.splitlines(keepends=True)[HEAD:], rest.splitlines(keepends=True)


def option(name: str) -> Callable[[SimulatedKernel], None]:
    return lambda kernel: kernel.tracefs.write("trace_options", name.encode())


@pytest.mark.parametrize("size", [1, 13, 100, 4095, 4096, 5000, 1 << 16])
def test_pieces_of_any_size_are_the_whole(size: int) -> None:
    kernel = started()
    whole = kernel.tracefs.read("trace")
    assert whole.splitlines(keepends=True)[HEAD:] == [line(number) for number in range(COUNT)]
    with kernel.tracefs.open("trace", os.O_RDONLY) as file:
        pieces = list(iter(lambda: file.read(size), b""))
    assert b"".join(pieces) == whole
    assert max(map(len, pieces)) <= min(size, PAGE)


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        (option("noirq-info"), b"             cat-42      [000]      5.%06d: probe: (vfs_read+0x0/0x310) n=%d\n"),
        (
            option("record-tgid"),
            b"             cat-42      (-------) [000] .....     5.%06d: probe: (vfs_read+0x0/0x310) n=%d\n",
        ),
        (
            lambda kernel: kernel.tracefs.write("saved_cmdlines_size", b"10"),
            b"           <...>-42      [000] .....     5.%06d: probe: (vfs_read+0x0/0x310) n=%d\n",
        ),
        (
            lambda kernel: kernel.tracefs.write("kprobe_events", b"p:other vfs_write"),
            b"             cat-42      [000] .....     5.%06d: probe: (vfs_read+0x0/0x310) n=%d\n",
        ),
        (
            lambda kernel: kernel.tracefs.write("events/kprobes/probe/enable", b"0"),
            b"             cat-42      [000] .....     5.%06d: probe: (vfs_read+0x0/0x310) n=%d\n",
        ),
    ],
    ids=["irq-info", "record-tgid", "cmdlines", "definition", "enable"],
)
def test_lines_are_as_the_options_have_them_when_they_are_read(
    change: Callable[[SimulatedKernel], object], shown: bytes
) -> None:
    before, after = changed(started(), change)
    assert before == [line(number) for number in range(len(before))]
    assert len(before) == 42
    assert after[0] == line(42)
    assert after[1:] == [shown % (number, number) for number in range(43, COUNT)]


def test_an_option_that_is_switched_back_and_forth() -> None:
    kernel = started()
    pages = []
    with kernel.tracefs.open("trace", os.O_RDONLY) as file:
        for number in range(5):
            kernel.tracefs.write("trace_options", b"noirq-info" if number % 2 else b"irq-info")
            pages.append([b"....." in shown for shown in file.read(PAGE).splitlines()])
    assert [(page[0], set(page[1:])) for page in (pages[0][HEAD:], *pages[1:])] == [
        (True, {True}),
        (True, {False}),
        (False, {True}),
        (True, {False}),
        (False, {True}),
    ]


def test_what_is_left_of_a_line_stays_as_it_was() -> None:
    kernel = started()
    with kernel.tracefs.open("trace", os.O_RDONLY) as file:
        file.read(PAGE)
        assert file.read(30) == line(42)[:30]
        kernel.tracefs.write("trace_options", b"noirq-info")
        assert file.read(PAGE).splitlines(keepends=True)[:2] == [line(42)[30:], line(43).replace(b".....", b"")]


@pytest.mark.parametrize(
    "change",
    [
        lambda kernel: kernel.tracefs.write("trace", b"", truncate=True),
        lambda kernel: kernel.tracefs.write("trace_clock", b"counter"),
    ],
    ids=["clear", "clock"],
)
def test_a_buffer_that_is_cleared_has_no_more_lines_but_the_one_that_was_made(
    change: Callable[[SimulatedKernel], object],
) -> None:
    assert changed(started(), change)[1] == [line(42)]


def test_a_buffer_that_is_cleared_and_filled_again() -> None:
    def fill(kernel: SimulatedKernel) -> None:
        kernel.tracefs.write("trace", b"", truncate=True)
        recorded(kernel, 1000)

    _, after = changed(started(), fill)
    assert after == [line(42), *[line(number) for number in range(1043, 1000 + COUNT)]]


def test_events_that_come_meanwhile_are_shown_last() -> None:
    before, after = changed(started(), lambda kernel: recorded(kernel, COUNT))
    assert after == [line(number) for number in range(len(before), 2 * COUNT)]


def test_a_name_that_comes_meanwhile() -> None:
    def rename(kernel: SimulatedKernel) -> None:
        kernel.call("vfs_read", task=Task(42, "dog"), args=(COUNT,), at=5 * SECOND + 1000 * COUNT)

    _, after = changed(started(), rename)
    assert after == [line(42), *[line(number).replace(b"cat", b"dog") for number in range(43, COUNT + 1)]]


def test_events_that_are_consumed_meanwhile_are_no_lines_any_more() -> None:
    def consume(kernel: SimulatedKernel) -> None:
        with kernel.tracefs.open("trace_pipe", os.O_RDONLY) as pipe:
            assert pipe.read(3 * len(line(0))) == line(0) + line(1) + line(2)

    _, after = changed(started(), consume)
    assert after == [line(42), *[line(number) for number in range(46, COUNT)]]


def test_a_function_that_gets_another_size() -> None:
    kernel = SimulatedKernel("6.1")
    kernel.tracefs.write("events/kmem/kfree/enable", b"1")
    place = kernel.symbols.lookup("vfs_read")[0].address + 4
    for _ in range(COUNT):
        kernel.emit("kmem/kfree", task=CAT, fields={"call_site": place, "ptr": 0})
    before, after = changed(kernel, lambda kernel: kernel.add_function("vfs_read", 64))
    assert {shown.partition(b": ")[2] for shown in before} == {
        b"kfree: call_site=vfs_read+0x4/0x310 ptr=0000000000000000\n"
    }
    assert {shown.partition(b": ")[2] for shown in after[1:]} == {
        b"kfree: call_site=vfs_read+0x4/0x40 ptr=0000000000000000\n"
    }
    assert len(before) + len(after) == COUNT


def test_memory_is_looked_at_when_a_line_is_read() -> None:
    kernel = SimulatedKernel("6.1")
    address = 0xFFFF888000000000
    kernel.memory.put(address, b"one\0")
    kernel.tracefs.write("events/power/suspend_resume/enable", b"1")
    for number in range(COUNT):
        kernel.emit("power/suspend_resume", task=CAT, fields={"action": address, "val": number % 2, "start": 1})
    before, after = changed(kernel, lambda kernel: kernel.memory.put(address, b"two\0"))
    texts = [shown.partition(b": ")[2] for shown in before + after]
    assert texts == [
        b"suspend_resume: %b[%d] begin\n" % (b"one" if number <= len(before) else b"two", number % 2)
        for number in range(COUNT)
    ]


def test_a_seek_to_the_start_makes_all_anew() -> None:
    kernel = started()
    with kernel.tracefs.open("trace", os.O_RDONLY) as file:
        file.read(PAGE)
        kernel.tracefs.write("trace_options", b"noirq-info")
        file.lseek(0, os.SEEK_SET)
        other = file.read(PAGE)
        kernel.tracefs.write("trace_options", b"irq-info")
        file.lseek(0, os.SEEK_SET)
        again = file.read(PAGE)
    # after the header comes the line that the page before had no room for
    assert other.splitlines(keepends=True)[6:8] == [line(42), line(0).replace(b".....", b"")]
    assert other.count(b".....") == 1
    assert again.splitlines(keepends=True)[HEAD : HEAD + 2] == [line(48).replace(b".....", b""), line(0)]
    assert again.endswith(line(39) + line(40))


def test_a_line_too_long_among_others() -> None:
    names = b" ".join(b"s%d=@linux_banner:x8[64]" % number for number in range(20))
    kernel = started(b"p:probe vfs_read n=%di:u32\np:other vfs_write " + names)
    kernel.call("vfs_write", task=CAT, at=6 * SECOND)
    recorded(kernel, COUNT)
    before, other, after = re.split(rb"( +cat-42 .*: other: .*,0x35,)", kernel.tracefs.read("trace"))
    assert before.splitlines(keepends=True)[HEAD:] == [line(number) for number in range(COUNT)]
    assert 4080 < len(other) < 4096  # another element and a comma don't fit, nor does the note
    assert after == b"".join([line(number) for number in range(COUNT, 2 * COUNT)])


def test_events_of_all_kinds_by_turns() -> None:
    kernel = SimulatedKernel("6.1", cpus=2)
    tracefs = kernel.tracefs
    tracefs.write("kprobe_events", b"p:into vfs_read n=%di:u32\nr:out vfs_read r=$retval:s32")
    tracefs.write("events/kprobes/enable", b"1")
    tracefs.write("events/sched/sched_switch/enable", b"1")
    kernel.writer = Task(43, "sh")
    for number in range(50):
        kernel.call("vfs_read", task=CAT, args=(number,), returns=-number, cpu=number % 2, caller="ksys_read+0x10")
        kernel.switch(CAT, kernel.writer, cpu=1)
        tracefs.write("trace_marker", b"mark %d" % number)
    shown = [one.split(b": ", 1)[1] for one in tracefs.read("trace").splitlines()[HEAD:]]
    switch = (
        b"sched_switch: prev_comm=cat prev_pid=42 prev_prio=120 prev_state=R ==> next_comm=sh next_pid=43 next_prio=120"
    )
    assert shown == [
        text
        for number in range(50)
        for text in (
            b"into: (vfs_read+0x0/0x310) n=%d" % number,
            b"out: (ksys_read+0x10/0xf0 <- vfs_read) r=%d" % -number,
            switch,
            b"tracing_mark_write: mark %d" % number,
        )
    ]
