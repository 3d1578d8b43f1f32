"""The undo stack."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from kprobe.errors import UndoFailed
from kprobe.undo.undo import Undo


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


def test_what_failed_is_taken_again_after_the_rest() -> None:
    """A disable that failed leaves the event busy until the instance is gone."""
    undo, log = Undo(), []
    there = {"event", "instance"}

    def remove_event() -> None:
        log.append("event")
        if "instance" in there:
            raise OSError(errno.EBUSY, "busy")
        there.remove("event")

    def disable() -> None:
        log.append("disable")
        raise OSError(errno.EIO if "instance" in there else errno.ENOENT, "no")

    def remove_instance() -> None:
        log.append("instance")
        there.remove("instance")

    undo.push("instance", remove_instance)
    undo.push("event", remove_event)
    undo.push("disable", disable)
    undo.run()
    assert (there, undo.failures) == (set(), [])
    assert log == ["disable", "event", "instance", "disable", "event"]


def test_what_fails_for_good_is_tried_twice() -> None:
    undo, log = Undo(), []

    def fail() -> None:
        log.append("a")
        raise OSError(errno.EIO, "no")

    undo.push("a", fail)
    undo.run()
    assert log == ["a", "a"]


def test_it_goes_on_as_long_as_it_gets_anywhere() -> None:
    undo, log = Undo(), []

    def needs(name: str, *others: str) -> Callable[[], None]:
        def take() -> None:
            if not set(others) <= set(log):
                raise OSError(errno.EBUSY, "busy")
            log.append(name)

        return take

    for name, others in (("a", ""), ("b", "a"), ("c", "b"), ("d", "c")):
        undo.push(name, needs(name, *others))
    undo.run()
    assert (log, undo.failures) == (["a", "b", "c", "d"], [])


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOENT])
def test_after_an_error_the_state_is_looked_at(number: int) -> None:
    undo, log = Undo(), []
    undo.push("done", failing(number), is_left=lambda: False)
    undo.push("not done", failing(number), is_left=lambda: True)
    undo.run()
    assert [(name, error.errno) for name, error in undo.failures] == [("not done", number)]
    assert log == []


def test_a_step_that_failed_before_its_turn_is_taken_in_it() -> None:
    undo, errors = Undo(), [OSError(errno.EIO, "no")]

    def take() -> None:
        if errors:
            raise errors.pop()
        log.append("a")

    log: list[str] = []
    step = undo.push("a", take)
    undo.now(step)
    assert log == []
    undo.run()
    assert (log, undo.failures) == (["a"], [])


def test_what_is_left_is_told_with_its_commands_in_the_order_that_works() -> None:
    undo = Undo()
    undo.push("remove instance", failing(errno.EBUSY), command=lambda: "rmdir instances/mine", frees=True)
    undo.push("remove event", failing(errno.EBUSY), command=lambda: "echo '-:mine' >> kprobe_events")
    with pytest.raises(UndoFailed) as caught:
        undo.finish(None)
    assert str(caught.value) == (
        "left behind, because undoing it failed:\n"
        "  remove instance: [Errno 16] no\n"
        "    by hand: rmdir instances/mine\n"
        "  remove event: [Errno 16] no\n"
        "    by hand: echo '-:mine' >> kprobe_events"
    )


def test_a_step_that_is_interrupted_again_and_again_is_told() -> None:
    undo = Undo()

    def interrupted() -> None:
        raise KeyboardInterrupt

    undo.push("a", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        undo.finish(None)
    assert caught.value.__notes__ == ["left behind, because undoing it failed:\n  a: KeyboardInterrupt"]
