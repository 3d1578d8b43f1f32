"""Places and arguments at the limits of what registration takes, where kernels differ."""

from __future__ import annotations

from errno import E2BIG, EINVAL, ENOENT
from typing import Any

import pytest

from .builds import AUTO, BTF, CURRENT
from .text import Record, define, errors, probes, refused

LEVELS = 12  # as many as fit around a symbol, without an array


def test_the_end_of_the_kernel(tracefs: Any, choose: Any) -> None:
    """Up to 5.15 the address _end still belongs to the kernel."""
    number, message = choose(
        {"": (EINVAL, "Failed to register probe event"), AUTO: (ENOENT, "Invalid probed address or symbol")}
    )
    assert refused(tracefs, "kprobe_events", "r _end") == number
    assert errors(tracefs) == [Record("trace_kprobe: error: " + message, "r ^_end")]


def test_which_is_found_first(tracefs: Any, choose: Any) -> None:
    """A symbol that several functions have, and a return probe that isn't on an entry."""
    message = choose({"": "Retprobe address must be an function entry", BTF: "The symbol is not unique"})
    assert refused(tracefs, "kprobe_events", "r:y t_show+1") == EINVAL
    assert errors(tracefs) == [Record("trace_kprobe: error: " + message, "r:y ^t_show+1")]


def test_room_for_the_loop_of_an_array(tracefs: Any, choose: Any) -> None:
    expression = f"{'+0(' * LEVELS}@jiffies{')' * LEVELS}"
    if choose({"": False, CURRENT: True}):
        assert refused(tracefs, "kprobe_events", f"p:x do_sys_openat2 a={expression}:u8[2]") == E2BIG
        assert errors(tracefs)[0].message == "trace_kprobe: error: Too many nested typecasts/dereferences"
        return
    define(tracefs, f"p:x do_sys_openat2 a={expression}:u8")
    define(tracefs, "-:x")
    number = choose({"": EINVAL, BTF: E2BIG})
    assert refused(tracefs, "kprobe_events", f"p:x do_sys_openat2 a={expression}:u8[2]") == number
    assert [record.message for record in errors(tracefs)] == ["trace_kprobe: error: Dereference is too much nested"]
    assert probes(tracefs) == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("p:1x no_such_symbol", "Invalid probed address or symbol"),
        ("p:x no_such_symbol %zz", "Invalid probed address or symbol"),
        ("r:1x do_sys_openat2+1", "Retprobe address must be an function entry"),
        ("p:1x do_sys_openat2 %zz", "Event name must follow the same rules as C identifiers"),
        ("p:x do_sys_openat2+1 %zz", "Invalid register name"),
        ("p:sched/sched_switch do_sys_openat2 %zz", "Invalid register name"),
        ("p:sched/sched_switch do_sys_openat2+1", "Given group/event name is already used by another event"),
        ("p:x jiffies @no_such_symbol", "Failed to register probe event"),
        ("p:x do_sys_openat2+1 @no_such_symbol", "Invalid probed address or symbol"),
    ],
)
def test_the_first_fault_is_told(tracefs: Any, line: str, message: str) -> None:
    """Of two: the symbol, the entry, the names, the arguments, the name that is taken, and what registration finds."""
    assert refused(tracefs, "kprobe_events", line)
    assert [record.message for record in errors(tracefs)] == ["trace_kprobe: error: " + message]
