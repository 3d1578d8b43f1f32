"""The tracer's probes of all kinds, on every tracefs that has them; elsewhere a refusal that says what there is."""

from __future__ import annotations

from typing import Any

import pytest

from kprobe import Event, KprobeError, Tracer, Unsupported

from .builds import BTF, EPROBES

FILE = "/bin/busybox"
MINE = 'comm == "workload"'


def has(tracefs: Any, *marks: str) -> bool:
    readme = tracefs.read("README").decode()
    return any(mark in readme for mark in marks)


def left(tracefs: Any) -> tuple[bytes, list[str]]:
    return tracefs.read("dynamic_events"), tracefs.listdir("instances")


def traced(tracefs: Any, workload: Any, *definitions: str, **options: Any) -> list[tuple[str, Any]]:
    """Return name and fields of what a trace sees of an open of /no/such."""
    with Tracer(tracefs).trace(*definitions, **options) as trace:
        workload.open("/no/such")
        trace.stop()
        found = [(event.name, dict(event.fields)) for event in trace if isinstance(event, Event)]
    assert left(tracefs) == (b"", [])
    return found


def test_function_probes(tracefs: Any, workload: Any) -> None:
    probes = ("f:do_sys_openat2 mode=$arg1:s32", "f:do_sys_openat2%return fd=$retval:s32")
    if not has(tracefs, BTF):
        with pytest.raises(Unsupported, match=r"this kernel has no function probes \(f:\) \(it has p:, r:,"):
            traced(tracefs, workload, *probes)
        return
    assert traced(tracefs, workload, *probes, filter=MINE) == [
        ("do_sys_openat2", {"mode": -100}),
        ("do_sys_openat2_return", {"fd": -2}),
    ]


def test_event_probes(tracefs: Any, workload: Any) -> None:
    probe = "e:syscalls/sys_enter_openat dfd=$dfd:s32"
    if not has(tracefs, EPROBES):
        with pytest.raises(Unsupported, match=r"this kernel has no event probes \(e:\)"):
            traced(tracefs, workload, probe)
        return
    assert traced(tracefs, workload, probe, filter=MINE) == [("sys_enter_openat", {"dfd": -100})]


@pytest.mark.parametrize(
    "probe", ["u:{}:0x1000%return", "u:mine {}:0x1000", "p:g/mine {}:4096 %ax", "r:{}:0x1000 $retval"]
)
@pytest.mark.parametrize("top_level", [False, True])
def test_user_space_probes_come_and_go(tracefs: Any, workload: Any, probe: str, top_level: bool) -> None:
    assert traced(tracefs, workload, probe.format(FILE), top_level=top_level) == []


def test_tracepoint_probes_come_and_go(tracefs: Any, workload: Any) -> None:
    probe = "t:sched_process_exec"
    if not has(tracefs, BTF):
        with pytest.raises(Unsupported, match=r"this kernel has no tracepoint probes \(t:\)"):
            traced(tracefs, workload, probe)
        return
    assert traced(tracefs, workload, probe, filter=MINE) == []


@pytest.mark.parametrize(
    ("probe", "says"),
    [
        ("u:x /nosuch:0x10", "Failed to find the given file"),
        ("e:x sched.nosuch", "Attached event does not exist"),
        ("t:x sched_switch $retval", "$retval is not available on probe"),
        ("f:x vfs_read $none", "Invalid $-va"),
    ],
)
def test_refusals_are_the_kernels(tracefs: Any, workload: Any, probe: str, says: str) -> None:
    with pytest.raises(KprobeError) as refusal:
        traced(tracefs, workload, "p:do_sys_openat2", probe)
    if not isinstance(refusal.value, Unsupported):
        assert says in str(refusal.value)
        assert f"refused '{probe.replace('u:', 'p:')}'" in str(refusal.value)
    assert left(tracefs) == (b"", [])
