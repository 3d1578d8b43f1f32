"""The undo stack."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from kprobe.undo import Undo


def failing(number: int) -> Callable[[], None]:
    def fail() -> None:
        raise OSError(number, "no")

    return fail


def test_last_first_and_once() -> None:
    undo, log = Undo(), []
    for name in "abc":
        undo.push(name, lambda name=name: log.append(name))
    undo.run()
    undo.run()
    assert log == ["c", "b", "a"]


def test_a_failing_step_stops_no_other_and_is_reported() -> None:
    undo, log = Undo(), []
    undo.push("a", lambda: log.append("a"))
    undo.push("b", failing(errno.EBUSY))
    undo.push("c", lambda: log.append("c"))
    undo.run()
    assert log == ["c", "a"]
    assert [(name, error.errno) for name, error in undo.failures] == [("b", errno.EBUSY)]


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ENODEV])
def test_what_is_gone_is_undone(number: int) -> None:
    undo = Undo()
    undo.push("a", failing(number))
    undo.run()
    assert undo.failures == []


def test_a_dropped_step_is_not_taken_and_one_taken_now_not_again() -> None:
    undo, log = Undo(), []
    a, b = undo.push("a", lambda: log.append("a")), undo.push("b", lambda: log.append("b"))
    undo.drop(a)
    undo.now(b)
    undo.now(b)
    undo.run()
    assert log == ["b"]


def test_an_interrupt_repeats_its_step_and_comes_out_at_the_end() -> None:
    undo, log = Undo(), []
    interrupts = [KeyboardInterrupt()]

    def step() -> None:
        if interrupts:
            raise interrupts.pop()
        log.append("b")

    undo.push("a", lambda: log.append("a"))
    undo.push("b", step)
    with pytest.raises(KeyboardInterrupt):
        undo.run()
    assert log == ["b", "a"]
