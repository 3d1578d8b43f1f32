"""A probe at all functions whose names fit a pattern, on every tracefs."""

from __future__ import annotations

from typing import Any

import pytest

from kprobe import DefinitionError, Event, Tracer

from .text import probes

PATTERN = "do_sys_open*"


def fitting(tracefs: Any, start: str) -> list[str]:
    lines = tracefs.read("available_filter_functions").decode().splitlines()
    return sorted(name for name in (line.partition(" ")[0] for line in lines) if name.startswith(start))


def test_each_function_has_its_event(tracefs: Any, workload: Any) -> None:
    names = fitting(tracefs, "do_sys_open")
    assert "do_sys_openat2" in names
    with Tracer(tracefs).trace(f"p:{PATTERN}", f"r:{PATTERN}", filter='comm == "workload"') as trace:
        assert trace.notices == [f"{kind}:{PATTERN} matches {len(names)} functions" for kind in "pr"]
        assert [probe.name for probe in trace.probes] == [*names, *(f"{name}_return" for name in names)]
        workload.open("/dev/null")
        trace.stop()
        found = {event.name for event in trace if isinstance(event, Event)}
    assert {"do_sys_openat2", "do_sys_openat2_return"} <= found
    assert probes(tracefs) == []
    assert tracefs.listdir("instances") == []


def test_under_a_name_of_the_users(tracefs: Any) -> None:
    with Tracer(tracefs).trace(f"p:h/mine {PATTERN}") as trace:
        assert {probe.event for probe in trace.probes} == {f"h/mine_{name}" for name in fitting(tracefs, "do_sys_open")}
    assert probes(tracefs) == []


@pytest.mark.parametrize(
    ("definition", "says"),
    [("p:nosuch_*", "no function that can be probed matches"), ("p:vfs_*", "functions match, and at most 3 may")],
)
def test_none_or_too_many_are_an_error(tracefs: Any, definition: str, says: str) -> None:
    with pytest.raises(DefinitionError, match=says), Tracer(tracefs).trace(definition, max_probes=3):
        pass
    assert probes(tracefs) == []
    assert tracefs.listdir("instances") == []


def test_what_is_wrong_everywhere_is_an_error(tracefs: Any) -> None:
    from kprobe import Refused

    with pytest.raises(Refused, match="Invalid register name"), Tracer(tracefs).trace(f"p:{PATTERN} a=%nosuch"):
        pass
    assert probes(tracefs) == []
