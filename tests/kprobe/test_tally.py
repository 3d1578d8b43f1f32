"""Counting what a trace prints, and cutting it off."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from kprobe.cli import main
from kprobe.definitions.definition import parse
from kprobe.definitions.terms import Terms
from kprobe.tracing.ring_counts import ring_counts
from kprobe.tracing.settings import mask
from kprobe.tracing.tally import EventTally
from kprobe.undo.instance import Instance
from kprobe_sim import SimulatedKernel

LEAD = b"             cat-2841    [000] .....  2148.505110: "
A, B = LEAD + b"a: (vfs_read+0x0/0x170)\n", LEAD + b'b: (vfs_read+0x0/0x170) s="x: a: (y"\n'
STACK = LEAD + b"<stack trace>\n => vfs_read\n => ksys_read\n"
LOST = b"CPU:1 [LOST 7 EVENTS]\n"
FORMATS = {"a": "", "b": ""}


def tally(*names: str, most: int | None = None) -> EventTally:
    return EventTally(names, most)


@pytest.mark.parametrize(
    ("chunks", "events", "lost"),
    [
        ([A + A, B], {"a": 2, "b": 1}, 0),
        ([A + STACK + LOST + B + STACK], {"a": 1, "b": 1}, 7),
        ([A[:20], A[20:] + B[:60], B[60:]], {"a": 1, "b": 1}, 0),
        ([LEAD + b"of_others: (vfs_read+0x0/0x170)\n" + A], {"a": 1, "b": 0}, 0),
    ],
)
def test_each_line_is_counted_once(chunks: list[bytes], events: dict[str, int], lost: int) -> None:
    found = tally("a", "b")
    assert b"".join(found.text(data, dict, live=True) for data in chunks) == b"".join(chunks)
    assert (found.events, found.lost, found.uncertain) == (events, lost, False)


def test_many_names() -> None:
    names = [f"e{number}" for number in range(30)]
    found = tally(*names)
    found.text(b"".join(LEAD + b"%b: (f+0x0/0x1)\n" % name.encode() for name in names), dict, live=True)
    assert found.total == 30


def test_losses_without_a_number() -> None:
    found = tally("a")
    found.text(b"CPU:0 [LOST EVENTS]\n" + A, dict, live=True)
    assert (found.total, found.lost, found.uncertain) == (1, 0, True)


def test_what_a_buffer_overwrote() -> None:
    found = tally("a")
    found.header(b"# tracer: nop\n#\n# entries-in-buffer/entries-written: 205/1000   #P:1\n")
    assert found.lost == 795


@pytest.mark.parametrize(
    ("most", "text"), [(1, A), (2, A + B + STACK + LOST), (3, A + B + STACK + LOST + A), (9, A + B + STACK + LOST + A)]
)
def test_it_ends_behind_the_last_that_is_wanted(most: int, text: bytes) -> None:
    """What follows up to the next event is passed on only where it belongs to the last: its stack."""
    found = tally("a", "b", most=most)
    cut = found.text(A + B + STACK + LOST + A, lambda: FORMATS, live=True)
    assert cut == (text if most != 2 else A + B + STACK)
    assert found.is_full is (most <= 3)


def test_a_string_with_a_forged_line_is_one_event() -> None:
    forged = LEAD + b'b: (vfs_read+0x0/0x170) s="x\n' + A[:-1] + b'"\n'
    found = tally("a", "b", most=2)
    assert found.text(forged + A + A, lambda: FORMATS, live=True) == forged + A


@pytest.mark.parametrize(
    ("cpus", "text"),
    [([0], "1"), ([0, 1, 3], "b"), ([31], "80000000"), ([32, 0], "1,00000001"), ([64], "1,00000000,00000000")],
)
def test_masks(cpus: list[int], text: str) -> None:
    assert mask(cpus) == text


@pytest.mark.parametrize(
    ("definitions", "line"),
    [
        (["p:vfs_read"], "0 events, 0 lost, 0 missed"),
        (["f:vfs_read"], "0 events, 0 lost"),
        (["t:sched_switch"], "0 events, 0 lost"),
        (["e:syscalls.sys_enter_openat"], "0 events, 0 lost"),
        (["u:/bin/busybox:0x1000"], "0 events, 0 lost"),
        (["p:vfs_read", "f:vfs_read"], "0 events, 0 lost, 0 missed (of p: and r:): vfs_read 0, vfs_read_2 0"),
    ],
)
def test_misses_are_told_of_what_the_kernel_counts_them_of(definitions: list[str], line: str, capfd: Any) -> None:
    """As a guest of 6.12 has it: of the five kinds kprobe_profile has rows of p: and r: alone."""
    assert main(["--timeout", "0", *definitions], tracefs=SimulatedKernel("6.12").tracefs) == 0
    assert capfd.readouterr().err.splitlines()[-1] == line


class Stats:
    """The files per_cpu/cpu*/stats, as guests have them; gone after that many reads."""

    def __init__(self, *texts: bytes, reads: int = 100) -> None:
        self._texts = texts
        self._reads = reads

    def listdir(self, path: str) -> list[str]:
        assert path == "instances/i/per_cpu"
        return [f"cpu{number}" for number in range(len(self._texts))]

    def read(self, path: str) -> bytes:
        self._reads -= 1
        if self._reads < 0:
            raise OSError(errno.ENODEV, "No such device", path)
        return self._texts[int(path.removeprefix("instances/i/per_cpu/cpu").removesuffix("/stats"))]


CPU0 = (
    b"entries: 154\noverrun: 648\ncommit overrun: 0\nbytes: 7728\noldest event ts:    21.521940\n"
    b"now ts:    21.560866\ndropped events: 2\nread events: 31\n"
)
CPU1 = CPU0.replace(b"31", b"4").replace(b"648", b"0")


@pytest.mark.parametrize(
    ("terms", "probes", "texts"),
    [
        ({}, 2, (CPU0,)),
        ({"stacktrace": True}, 1, (CPU0,)),
        ({"max_events": 9}, 1, (CPU0,)),
        ({}, 1, (CPU0.replace(b"read events: 31\n", b""),)),  # 3.2
        ({}, 1, (CPU0, b"")),
        ({}, 1, ()),
    ],
)
def test_the_kernels_count_is_of_events_alone(terms: dict[str, Any], probes: int, texts: tuple[bytes, ...]) -> None:
    stats: Any = Stats(*texts)
    instance = Instance(stats, "i", "instances/i/")
    assert ring_counts(stats, instance, (parse("p:a vfs_read"),) * probes, Terms(**terms)) is None


def test_the_kernels_count_of_all_cpus_stays_when_the_instance_goes() -> None:
    stats: Any = Stats(CPU0, CPU1, reads=4)
    found = tally("a")
    found.ring = ring_counts(stats, Instance(stats, "i", "instances/i/"), (parse("p:a vfs_read"),), Terms())
    assert found.text(A + A, dict, live=True) == A + A
    found.settle()
    assert (found.events, found.total, found.lost, found.uncertain) == ({"a": 35}, 35, 652, False)


def test_a_count_that_cant_be_read_is_no_count() -> None:
    stats: Any = Stats(CPU0, reads=1)
    found = tally("a")
    found.ring = ring_counts(stats, Instance(stats, "i", "instances/i/"), (parse("p:a vfs_read"),), Terms())
    found.settle()
    for count in ("events", "lost", "total"):
        with pytest.raises(OSError, match="No such device"):
            getattr(found, count)
