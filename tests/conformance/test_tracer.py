"""The tracer on every tracefs: the example of the design, end to end."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from .text import probes


def test_the_example(tracefs: Any, tracer: Any, workload: Any) -> None:
    definition = "p:myopen do_sys_openat2 filename=+0(%si):string"
    found = []
    with tracer.trace(definition, filter='filename ~ "*host*" && comm == "workload"') as trace:
        workload.open("/dev/null")
        workload.open("/etc/hostname")
        for event in trace:
            found.append(event)
            break
    (event,) = found
    assert event.task == "workload"
    assert event.pid == workload.pid
    assert event.cpu == 0
    assert event.name == "myopen"
    assert event.fields == {"filename": "/etc/hostname"}
    assert event.timestamp > 0
    assert tracefs.read("kprobe_events") == b""
    assert tracefs.read("set_event") == b""


def test_a_return(tracer: Any, workload: Any) -> None:
    with tracer.trace("r:myret do_sys_openat2 ret=$retval:s32", filter='ret < 0 && comm == "workload"') as trace:
        workload.open("/etc/hostname")
        workload.open("/no/such")
        event = next(iter(trace))
    assert event.name == "myret"
    assert event.fields == {"ret": -2}


def test_what_others_set_up_stays(tracefs: Any, tracer: Any, workload: Any) -> None:
    tracefs.write("kprobe_events", b"p:theirs do_sys_openat2\n")
    tracefs.write("events/kprobes/theirs/filter", b"cpu == 99")
    tracefs.write("events/kprobes/theirs/enable", b"1")
    with tracer.trace("p:mine do_sys_openat2", filter='comm == "workload"') as trace:
        workload.open("/dev/null")
        assert next(iter(trace)).name == "mine"
    assert probes(tracefs) == ["p:kprobes/theirs do_sys_openat2"]
    assert tracefs.read("events/kprobes/theirs/enable") == b"1\n"
    assert tracefs.read("events/kprobes/theirs/filter") == b"cpu == 99\n"


def test_a_refusal_says_why(tracefs: Any, tracer: Any) -> None:
    from kprobe import KprobeError

    with pytest.raises(KprobeError) as refusal, tracer.trace("p:bad do_sys_openat2 a=%nosuch"):
        pass
    assert "Invalid register name" in str(refusal.value)
    assert tracefs.read("kprobe_events") == b""


def test_a_bad_filter_leaves_nothing(tracefs: Any, tracer: Any) -> None:
    from kprobe import KprobeError

    with pytest.raises(KprobeError) as refusal, tracer.trace("p:a do_sys_openat2", filter="nosuch == 1"):
        pass
    assert "Field not found" in str(refusal.value)
    assert tracefs.read("kprobe_events") == b""


def test_events_come_while_it_runs(tracer: Any, workload: Any) -> None:
    names: list[str] = []
    with tracer.trace("p:a do_sys_openat2 f=+0(%si):string", filter='comm == "workload"') as trace:

        def collect() -> None:
            for event in trace:
                names.append(event.fields["f"])
                if len(names) == 3:
                    return

        reader = threading.Thread(target=collect)
        reader.start()
        for path in ("/dev/null", "/etc/hostname", "/"):
            workload.open(path)
        reader.join(30)
        assert not reader.is_alive()
    assert names == ["/dev/null", "/etc/hostname", "/"]
