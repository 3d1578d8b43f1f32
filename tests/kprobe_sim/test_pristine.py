"""What is put back between the tests on a real kernel; the simulator stands in for it here."""

from __future__ import annotations

from typing import Any

import pytest

from kprobe_sim import SimulatedKernel
from kprobe_sim.pytest_plugin.pristine import Pristine


class Noted:
    """A tracefs that notes the order of writes."""

    def __init__(self) -> None:
        self.tracefs = SimulatedKernel("6.1").tracefs
        self.written: list[tuple[str, bytes, bool]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tracefs, name)

    def write(self, path: str, data: bytes, *, truncate: bool = False) -> None:
        self.written.append((path, data, truncate))
        self.tracefs.write(path, data, truncate=truncate)

    def rmdir(self, path: str) -> None:
        self.written.append((path, b"rmdir", False))
        self.tracefs.rmdir(path)


class Guest(Noted):
    """One that tests have for themselves."""

    def renew(self) -> Guest:
        return Guest()


def test_an_untouched_tracefs_is_hardly_written() -> None:
    noted = Guest()
    assert Pristine(noted).reset() == []
    assert noted.written == [
        ("tracing_on", b"0", False),
        ("error_log", b"", True),
        ("trace", b"", True),
        ("tracing_on", b"1", False),
    ]


def test_what_was_touched_is_put_back_in_the_order_of_the_selftests() -> None:
    noted = Noted()
    pristine = Pristine(noted)
    pristine.mkdir("instances/x")
    switch = "events/sched/sched_switch"
    pristine.write(f"{switch}/filter", b"prev_pid > 3")
    pristine.write(f"{switch}/trigger", b"traceoff")
    pristine.write(f"{switch}/enable", b"1")
    pristine.write("kprobe_events", b"p:a do_sys_openat2")
    pristine.write("trace_options", b"stacktrace")
    pristine.write("trace_clock", b"mono")
    pristine.write("set_event_pid", b"1")
    noted.written.clear()
    assert pristine.reset() == []
    assert noted.written == [
        ("tracing_on", b"0", False),
        ("instances/x", b"rmdir", False),
        ("set_event_pid", b"", True),
        (f"{switch}/filter", b"0", False),
        (f"{switch}/trigger", b"", True),
        (f"{switch}/trigger", b"!traceoff", False),
        ("set_event", b"", True),
        ("dynamic_events", b"", True),
        ("trace_clock", b"local", False),
        ("buffer_size_kb", b"1408", False),
        ("options/stacktrace", b"0", False),
        ("error_log", b"", True),
        ("trace", b"", True),
        ("tracing_on", b"1", False),
    ]


def test_a_tracefs_in_use_is_recognised() -> None:
    noted = Noted()
    assert not Pristine(noted).is_in_use()
    noted.write("set_event", b"sched:sched_switch\n")
    assert Pristine(noted).is_in_use()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("max_graph_depth", b"3"),
        ("stack_max_size", b"100"),
        ("buffer_percent", b"30"),
        ("tracing_max_latency", b"77"),
        ("tracing_thresh", b"5"),
        ("trace_clock", b"mono"),
        ("trace_options", b"sym-offset"),
    ],
)
def test_values_are_put_back(path: str, value: bytes) -> None:
    tracefs = SimulatedKernel("6.1").tracefs
    before = tracefs.read(path)
    pristine = Pristine(tracefs)
    pristine.write(path, value)
    assert tracefs.read(path) != before
    assert pristine.reset() == []
    assert tracefs.read(path) == before


def test_buffers_stay_expanded() -> None:
    """They were made 7 KiB small, as an unused buffer is shown, and lost what the next test recorded."""
    tracefs = SimulatedKernel("6.1").tracefs
    assert tracefs.read("buffer_size_kb") == b"7 (expanded: 1408)\n"
    pristine = Pristine(tracefs)
    pristine.write("events/sched/sched_switch/enable", b"1")
    for _ in range(2):
        assert pristine.reset() == []
        assert tracefs.read("buffer_size_kb") == b"1410\n"


def test_others_instances_stay_where_a_tracefs_is_not_all_ours() -> None:
    for kind, left in ((Noted, ["theirs"]), (Guest, [])):
        noted = kind()
        pristine = Pristine(noted)
        noted.tracefs.mkdir("instances/theirs")
        pristine.mkdir("instances/mine")
        assert pristine.reset() == []
        assert noted.tracefs.listdir("instances") == left


def test_what_cannot_be_undone_is_told() -> None:
    noted = Noted()
    pristine = Pristine(noted)
    pristine.mkdir("instances/held")
    with noted.tracefs.open("instances/held/trace_pipe", 0):
        assert pristine.reset() == ["instances/held stays: Device or resource busy"]
