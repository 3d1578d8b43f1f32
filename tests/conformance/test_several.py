"""Several probes in one trace, on every tracefs."""

from __future__ import annotations

from typing import Any

import pytest

from kprobe import FilterRefused, Tracer

from .text import define, probes

ENTRY = "p:do_sys_openat2 file=+0(%si):string"
RETURN = "r:do_sys_openat2 fd=$retval:s32"


def test_entry_and_return_of_a_function(tracefs: Any, tracer: Any, workload: Any) -> None:
    found = []
    with tracer.trace(ENTRY, RETURN, filter='comm == "workload"') as trace:
        assert [probe.name for probe in trace.probes] == ["do_sys_openat2", "do_sys_openat2_return"]
        assert trace.probe == trace.probes[0]
        assert trace.notices == []
        workload.open("/no/such")
        for event in trace:
            found.append((event.name, event.pid, event.fields))
            if len(found) == 2:
                trace.stop()
    assert found == [
        ("do_sys_openat2", workload.pid, {"file": "/no/such"}),
        ("do_sys_openat2_return", workload.pid, {"fd": -2}),
    ]
    assert probes(tracefs) == []
    assert tracefs.listdir("instances") == []


@pytest.mark.parametrize("top_level", [False, True])
def test_a_filter_is_for_the_events_that_have_its_fields(
    tracefs: Any, tracer: Any, workload: Any, top_level: bool
) -> None:
    """The others aren't filtered, but for the threads that were picked; at the top level that takes a filter."""
    options = {"filter": "fd < 0", "tid": workload.pid, "top_level": top_level}
    with tracer.trace(ENTRY, RETURN, "p:also do_sys_openat2", **options) as trace:
        assert trace.notices[-1] == (
            "the filter isn't for do_sys_openat2 and also, which lack one of its fields: all such hits are shown"
        )
        workload.open("/no/such")
        workload.open("/dev/null")
        trace.stop()
        found = sorted(event.name for event in trace)
    assert found == ["also", "also", "do_sys_openat2", "do_sys_openat2", "do_sys_openat2_return"]
    assert probes(tracefs) == []


@pytest.mark.parametrize("filter_", ["nosuch == 1", "fd <", "fd ~ 3"])
def test_a_filter_that_none_takes_leaves_nothing(tracefs: Any, tracer: Any, filter_: str) -> None:
    with pytest.raises(FilterRefused), tracer.trace(ENTRY, RETURN, filter=filter_):
        pass
    assert probes(tracefs) == []
    assert tracefs.listdir("instances") == []


def test_one_that_is_refused_leaves_none(tracefs: Any, tracer: Any) -> None:
    define(tracefs, "p:theirs vfs_read")
    from kprobe import KprobeError

    with pytest.raises(KprobeError, match="Invalid register name"), tracer.trace(ENTRY, "p:bad vfs_read a=%nosuch"):
        pass
    assert probes(tracefs) == ["p:kprobes/theirs vfs_read"]


def test_some_in_groups_of_the_users(tracefs: Any, workload: Any) -> None:
    with Tracer(tracefs).trace("p:h/named do_sys_openat2", "r:do_sys_openat2", filter='comm == "workload"') as trace:
        groups = [probe.group for probe in trace.probes]
        workload.open("/dev/null")
        trace.stop()
        assert [event.name for event in trace] == ["named", "do_sys_openat2"]
    assert groups == ["h", trace.instance.session]
    assert probes(tracefs) == []
