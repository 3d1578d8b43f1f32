"""Latencies against what was done: calls of known durations, nested, recursive, with ends that are missing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kprobe.tracing.live import RawPipe
from kprobe_sim import SimulatedKernel, Task
from kprobe_text.figures.histogram import EXACT, Ranks, duration
from kprobe_text.figures.latencies import Latencies
from kprobe_text.text import CodeAddress, Event, Lost, Parser, Record

SHELL, CAT = Task(42, "sh"), Task(43, "cat")
FUNCTION = "vfs_read"
PROBES = (f"p:in {FUNCTION} stack_pointer=$stack", f"r:out {FUNCTION} stack_pointer=$stack")
BLIND = (f"p:in {FUNCTION}", f"r:out {FUNCTION}")
START = 20_000_000_000


class Machine:
    """A simulated kernel on which calls are made at known times, and the events of them."""

    def __init__(self, release: str, probes: tuple[str, ...]) -> None:
        self.kernel = SimulatedKernel(release, cpus=2)
        self.kernel.tracefs.write("kprobe_events", "".join(line + "\n" for line in probes).encode())
        self.kernel.tracefs.write("events/kprobes/enable", b"1")

    def read(
        self,
        start: int,
        duration: int | None,
        within: Callable[[], object] = lambda: None,
        *,
        task: Task = SHELL,
        cpu: int = 0,
        function: str = FUNCTION,
    ) -> None:
        """Let a task read for so many ns; None: no return is seen."""
        self.kernel.call(
            function,
            task=task,
            cpu=cpu,
            at=START + start,
            returns=None if duration is None else 0,
            duration=duration,
            within=lambda: [within(), None][1],
        )

    def records(self) -> list[Record]:
        return RawPipe(self.kernel.tracefs).drain()

    def text_records(self) -> list[Record]:
        tracefs = self.kernel.tracefs
        parser = Parser(lambda name: tracefs.read(f"events/kprobes/{name}/format").decode())
        return [*parser.feed(tracefs.read("trace")), *parser.close()]


def event(name: str, function: str, time: int, pointer: int, is_return: bool) -> Event:
    place = CodeAddress(function, 0, 0, "", None, function)
    fields = {"stack_pointer": pointer}
    return Event("sh", 42, 0, "", time, name, place, place if is_return else None, fields, None, "time", b"")


def row(records: list[Record], function: str = FUNCTION) -> dict[str, object]:
    """Return what a function's latency has, without its zeros."""
    figure = Latencies()
    for record in records:
        figure.add(record)
    figure.end()
    (found,) = [shown for shown in figure.objects() if shown["function"] == function]
    return {key: value for key, value in found.items() if value not in (0, "latency", function)}


def nested(machine: Machine) -> None:
    """A read of 1,000,003 ns holds one of 400,001 ns, which holds one of 50,007 ns; another task reads meanwhile."""

    def within() -> None:
        machine.read(10_000, 400_001, innermost)

    def innermost() -> None:
        machine.read(20_000, 50_007)
        machine.read(30_000, 2_000_011, task=CAT, cpu=1)

    machine.read(0, 1_000_003, within)


@pytest.mark.slow
@pytest.mark.parametrize("probes", [PROBES, BLIND])
@pytest.mark.parametrize("release", ["6.12", "6.1", "3.13"])
def test_nested_and_recursive_calls_have_their_durations_to_the_ns(release: str, probes: tuple[str, ...]) -> None:
    machine = Machine(release, probes)
    nested(machine)
    assert row(machine.records()) == {
        "calls": 4, "total": 3_450_022, "mean": 862_506, "min": 50_007, "p50": 400_001, "p90": 2_000_011,
        "p99": 2_000_011, "max": 2_000_011, "exact": True,
        "histogram": [[32768, 65535, 1], [262144, 524287, 1], [524288, 1048575, 1], [1048576, 2097151, 1]],
    }  # fmt: skip


def test_text_has_them_to_the_microsecond() -> None:
    machine = Machine("6.12", PROBES)
    nested(machine)
    assert row(machine.text_records())["total"] == 3_450_000


def test_a_return_that_the_kernel_missed_is_not_made_up_for() -> None:
    """Of a read within a read, the inner one's return is missing; then the same place is reached again."""
    machine = Machine("6.12", PROBES)
    machine.read(0, 1000, lambda: machine.read(100, None))
    machine.read(5000, None)
    machine.read(9000, 30)
    machine.read(9500, 20)
    found = row(machine.records())
    assert {key: found[key] for key in ("calls", "total", "unreturned")} == {"calls": 3, "total": 1050, "unreturned": 2}
    assert "running" not in found


def test_what_began_before_the_trace_has_no_latency() -> None:
    machine = Machine("6.12", PROBES)
    machine.kernel.tracefs.write("events/kprobes/in/enable", b"0")
    machine.read(0, 1000, lambda: machine.kernel.tracefs.write("events/kprobes/in/enable", b"1"))
    machine.read(2000, 70)
    machine.read(3000, 500, lambda: machine.kernel.tracefs.write("events/kprobes/enable", b"0"))
    found = row(machine.records())
    assert {key: found[key] for key in ("calls", "total", "unentered", "running")} == {
        "calls": 1,
        "total": 70,
        "unentered": 1,
        "running": 1,
    }


@pytest.mark.slow
def test_nothing_is_paired_over_lost_events() -> None:
    """Many events are lost while a read is under way: its return could be another's."""
    machine = Machine("6.12", PROBES)
    machine.kernel.tracefs.write("per_cpu/cpu0/buffer_size_kb", b"8")
    pipe = RawPipe(machine.kernel.tracefs)
    found: list[Record] = []

    def within() -> None:
        found.extend(pipe.drain())
        for number in range(1000):
            machine.read(1000 + 100 * number, 50, task=CAT)

    machine.read(0, 500_000, within)
    found += pipe.drain()
    lost = [record for record in found if isinstance(record, Lost)]
    assert len(lost) == 1
    latency = row(found)
    assert latency["cut"] == 1
    assert latency["unentered"] in (1, 2)  # the long one's return, and that of the first after the gap
    assert latency["min"] == latency["max"] == 50
    events = sum(isinstance(record, Event) for record in found)
    assert latency["calls"] == (events - 1 - int(str(latency["unentered"]))) // 2


def test_a_function_that_is_left_by_a_jump_keeps_its_stack() -> None:
    """ksys_read ends with a jump to vfs_read, which then has its stack pointer."""
    events = [
        event(*words)
        for words in (
            ("a", "ksys_read", 0, 1000, False),
            ("b", "vfs_read", 10, 1000, False),
            ("c", "vfs_read", 30, 1008, True),
            ("d", "ksys_read", 35, 1008, True),
        )
    ]
    assert row(events)["total"] == 20
    assert row(events, "ksys_read")["total"] == 35


def test_ranks_are_exact_until_there_are_many_and_then_close() -> None:
    ranks = Ranks()
    for number in range(1, 1001):
        ranks.add(number)
    assert [ranks.percentile(percent) for percent in (50, 90, 99, 100)] == [500, 900, 990, 1000]
    assert ranks.is_exact
    for number in range(1001, EXACT + 2):
        ranks.add(number)
    assert not ranks.is_exact
    assert abs(ranks.percentile(50) - 32768) <= 32768 * 0.01


@pytest.mark.parametrize(
    ("nanoseconds", "words"),
    [(0, "0 ns"), (999, "999 ns"), (1000, "1.000 us"), (1_000_003, "1.000003 ms"), (61_000_000_001, "61.000000001 s")],
)
def test_times_are_written_to_the_ns(nanoseconds: int, words: str) -> None:
    assert duration(nanoseconds) == words
