"""The backend of a run of tests: what is done when what a test left can't be undone."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from kprobe_sim import SimulatedKernel
from kprobe_sim.pytest_plugin.machines import Backend, Unusable

_NUMBERS = itertools.count()


class Stays:
    """A tracefs that is there for good; `number` says which it is."""

    is_alive = True

    def __init__(self) -> None:
        self.tracefs = SimulatedKernel("6.1").tracefs
        self.number = next(_NUMBERS)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tracefs, name)


class Guest(Stays):
    """One that can be had anew."""

    def renew(self) -> Guest:
        return Guest()


def hold(tracefs: Any, below: Any) -> Any:
    tracefs.mkdir("instances/held")
    return below.tracefs.open("instances/held/trace_pipe", 0)


def test_a_guest_is_replaced_and_the_test_named() -> None:
    notes: list[tuple[str, str]] = []
    with Backend("vm:6.1", lambda spec: Guest(), lambda *note: notes.append(note)) as backend:
        first = backend.fresh("a.py::test_tidy", exclusive=False)
        first.write("kprobe_events", b"p:mine vfs_read")
        second = backend.fresh("a.py::test_holds", exclusive=False)
        assert second.number == first.number
        with hold(second, backend.opened):
            third = backend.fresh("a.py::test_next", exclusive=False)
        assert third.number != second.number
        assert third.listdir("instances") == []
    assert notes == [("a.py::test_holds", "instances/held stays: Device or resource busy")]


def test_a_tracefs_that_stays_is_used_no_more() -> None:
    notes: list[tuple[str, str]] = []
    with Backend("local", lambda spec: Stays(), lambda *note: notes.append(note)) as backend:
        with hold(backend.fresh("a.py::test_holds", exclusive=False), backend.opened):
            backend.end_module()
        for _ in range(2):
            with pytest.raises(Unusable) as caught:
                backend.fresh("b.py::test_next", exclusive=False)
    assert str(caught.value) == (
        "--tracefs local can't be used any more, because "
        "a.py::test_holds left this behind: instances/held stays: Device or resource busy"
    )
    assert notes == [("a.py::test_holds", "instances/held stays: Device or resource busy")]


def test_what_does_not_come_up_is_waited_for_once() -> None:
    opened = []

    class TimeIsUp(BaseException):
        """What ends a test that takes too long."""

    def hang(spec: str) -> Any:
        opened.append(spec)
        raise TimeIsUp

    with Backend("vm:/boot/damaged", hang) as backend:
        with pytest.raises(TimeIsUp):
            backend.fresh("a.py::test_first", exclusive=False)
        with pytest.raises(Unusable, match=r"^--tracefs vm:/boot/damaged was asked for and didn't come up while "):
            backend.fresh("a.py::test_second", exclusive=False)
    assert opened == ["vm:/boot/damaged"]


def test_where_somebody_traces_no_test_runs() -> None:
    """The second test ended their work."""
    opened = Stays()
    opened.write("kprobe_events", b"p:theirs vfs_read")
    backend = Backend("local", lambda spec: opened)
    for _ in range(2):
        with pytest.raises(Unusable, match="somebody is tracing there"):
            backend.fresh("a.py::test", exclusive=False)
    assert opened.read("kprobe_events") == b"p:kprobes/theirs vfs_read\n"
