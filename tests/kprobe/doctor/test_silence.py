"""What a silent trace says on a simulated machine, whose activity is known; no test here waits for it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Any

import pytest

from kprobe import Tracer, open_tracefs
from kprobe.doctor.examination import examine
from kprobe.doctor.machine import Machine
from kprobe.doctor.silence import explain
from kprobe.errors import DefinitionError
from kprobe_sim import SimulatedKernel, Task
from kprobe_sim.kernel.activity import load


@pytest.fixture
def machine() -> Iterator[Any]:
    tracefs: Any = open_tracefs("sim:6.1")
    yield tracefs
    tracefs.close()


def said(tracefs: Any, *definitions: str, **options: Any) -> str:
    with Tracer(tracefs).trace(*definitions, **options) as trace:
        return explain(trace, 10)


@pytest.mark.parametrize(
    ("definitions", "text"),
    [
        (("p:vfs_read",), "the activity `opens` never calls vfs_read"),
        (("r:vfs_read",), "the activity `opens` never calls vfs_read"),
        (("p:vfs_read", "p:vfs_write"), "the activity `opens` never calls vfs_read, nor the others"),
        (
            ("p:do_sys_openat2",),
            "do_sys_openat2 was not called (kprobe_profile: 0 hits); kprobe doctor do_sys_openat2 looks further",
        ),
    ],
)
def test_a_machine_whose_work_is_known(machine: Any, definitions: tuple[str, ...], text: str) -> None:
    assert said(machine, *definitions) == f"nothing in 10 seconds: {text}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ("f:vfs_read", "the activity `opens` never calls vfs_read"),
        (
            "f:do_sys_openat2",
            "do_sys_openat2 may not be called now, may be inlined where it is called, or no hit passes the "
            "trace's filters; kprobe doctor do_sys_openat2 looks further",
        ),
        (
            "t:sched_switch",
            "the activity `opens` never calls __probestub_sched_switch, on which a t: probe stands: static events "
            "don't hit it on the simulator",
        ),
        (
            "e:mine sched/sched_switch",
            "sched.sched_switch may not fire now, or no hit passes the trace's filters",
        ),
        ("e:mine sched/sched_process_exec", "the activity `opens` never fires sched.sched_process_exec"),
        ("e:mine syscalls/sys_enter_close", "the activity `opens` never fires syscalls.sys_enter_close"),
        ("u:/bin/busybox:0x1000", "/bin/busybox:0x1000 was not hit (uprobe_profile: 0 hits)"),
    ],
)
def test_other_kinds(definition: str, text: str) -> None:
    tracefs: Any = open_tracefs("sim:6.12")
    assert said(tracefs, definition) == f"nothing in 10 seconds: {text}"
    assert examine(tracefs, [definition]).stops is False
    tracefs.close()


@pytest.mark.parametrize("series", ["3.13", "4.4", "5.4", "6.1", "7.3"])
def test_what_the_activity_fires(series: str) -> None:
    """Every static event is enabled: there are records of those that it says it fires, and of no other."""
    tracefs: Any = open_tracefs(f"sim:{series}")
    tracefs.write("events/enable", b"1\n")
    load("opens").play(tracefs.kernel)
    times = {"sched.sched_switch": 12, "raw_syscalls.sys_enter": 6, "raw_syscalls.sys_exit": 6}
    times |= {"syscalls.sys_enter_openat": 6, "syscalls.sys_exit_openat": 6}
    there = {name: count for name, count in times.items() if tracefs.exists(f"events/{name.replace('.', '/')}")}
    assert [name for name in there if tracefs.never_fires(name)] == []
    lines = [line for line in tracefs.read("trace").decode().splitlines() if not line.startswith("#")]
    assert len(lines) == sum(there.values())
    assert sum(": sched_switch: " in line for line in lines) == 12
    assert sum(": sys_openat(" in line for line in lines) == sum(": sys_openat -> " in line for line in lines) == 6
    assert [tracefs.never_fires(name) for name in ("no.such_event", "mine.mine")] == [""] * 2
    assert tracefs.never_fires("sched.sched_wakeup") == "the activity `opens` never fires sched.sched_wakeup"
    tracefs.close()


def test_a_machine_whose_hits_are_not_simulated() -> None:
    """Of 32 bits: enabling a probe gives ENOSYS, which is said before."""
    tracefs: Any = open_tracefs("sim:3.13-i386")
    (found,) = examine(tracefs).findings
    assert (found.level, found.what) == ("stops", "a probe can be defined here, but not enabled")
    reason = "what a processor of 32 bits makes of a hit isn't simulated (ENOSYS)"
    assert [str(fact) for fact in found.facts] == [f"simulator: {reason}"]
    tracefs.write("kprobe_events", b"p:mine do_sys_open\n")
    with pytest.raises(OSError, match="Function not implemented"):
        tracefs.write("events/kprobes/mine/enable", b"1\n")
    assert tracefs.never_fires("sched_switch") == ""
    tracefs.close()


def test_an_event_that_is_not_there(machine: Any) -> None:
    (found,) = examine(machine, ["e:mine sched/sched_swatch"]).findings
    assert found.what == "this kernel has no event sched.sched_swatch"
    assert found.helps == "grep -i 'sched_swatch' available_events"


def test_a_pattern_is_for_another_verb(machine: Any) -> None:
    with pytest.raises(DefinitionError, match="name functions; kprobe functions lists those that fit a pattern"):
        examine(machine, ["p:vfs_rea*"])


def test_an_activity_that_was_named() -> None:
    tracefs: Any = open_tracefs("sim:6.1,activity=perf-tools")
    assert tracefs.never_calls("vfs_read") == "the activity `perf-tools` never calls vfs_read"
    assert tracefs.never_calls("do_sys_open") == ""
    assert tracefs.never_calls("tcp_init_cwnd") == ""
    tracefs.close()


def test_a_predecessor(machine: Any) -> None:
    kernel = machine.kernel
    with Tracer(kernel.tracefs).trace("p:do_sys_open") as trace:
        assert explain(trace, 10) == (
            "nothing in 10 seconds: do_sys_open was not called (kprobe_profile: 0 hits); this kernel has "
            "do_sys_openat2 for it"
        )


def test_a_wrapper_of_a_system_call(machine: Any) -> None:
    kernel = machine.kernel
    with Tracer(machine).trace("p:__x64_sys_openat flags=%dx:u32", filter="flags == 577") as trace:
        for _ in range(2):
            kernel.call("__x64_sys_openat", args=(0xFFFFC90000123F58,))
        assert explain(trace, 10) == (
            "nothing in 10 seconds: __x64_sys_openat was hit 2 times (kprobe_profile), but the filter 'flags == 577' "
            "let none through; the arguments of a system call are behind the pointer that __x64_sys_openat gets: "
            "kprobe args __x64_sys_openat"
        )


def test_switches_that_keep_hits_away(machine: Any) -> None:
    path = "/sys/kernel/debug/kprobes/enabled"
    with Tracer(machine).trace("p:do_sys_openat2") as trace:
        off = Machine(lambda name: b"0\n" if name == path else _absent(name))
        assert explain(trace, 10, off) == (
            "nothing in 10 seconds: kprobes are switched off: probes can be added, but none is hit "
            f"({path}: 0): echo 1 > {path}"
        )


def test_misses(machine: Any) -> None:
    class Missing:
        """The tracefs with hits that the kernel missed."""

        def __getattr__(self, name: str) -> Any:
            return getattr(machine, name)

        def read(self, path: str) -> bytes:
            data: bytes = machine.read(path)
            return data.replace(b" 0\n", b" 7\n") if path == "kprobe_profile" else data

    assert said(Missing(), "r:do_sys_openat2") == (
        "nothing in 10 seconds: the kernel missed 7 times that do_sys_openat2 was hit; too few return probe instances: "
        "r100:... has more"
    )


def test_hits_that_are_not_counted(scripted: Any) -> None:
    assert said(scripted, "p:vfs_read") == (
        "nothing in 10 seconds: vfs_read may not be called now, may be inlined where it is called, or no hit "
        "passes the trace's filters; kprobe doctor vfs_read looks further"
    )


def _absent(path: str) -> bytes:
    raise FileNotFoundError(2, "No such file or directory", path)


def test_no_hits_of_which_the_kernel_keeps_no_count() -> None:
    tracefs: Any = open_tracefs("sim:6.12")
    with Tracer(tracefs).trace("f:do_sys_openat2 dfd=$arg1:s32", filter="dfd == 77") as trace:
        trace.count_hits()
        assert explain(trace, 10) == (
            "nothing in 10 seconds: do_sys_openat2 was not hit recently (a hist trigger: 0 hits); kprobe doctor "
            "do_sys_openat2 looks further"
        )
    tracefs.close()


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOMEM, errno.EACCES])
def test_hits_that_cannot_be_counted(number: int) -> None:
    tracefs: Any = open_tracefs("sim:6.12")
    with Tracer(tracefs).trace("f:do_sys_openat2 dfd=$arg1:s32", filter="dfd == 77") as trace:
        trace.tracefs = Refusing(tracefs, number)
        trace.count_hits()
        assert trace.hits() is None
        assert explain(trace, 10).startswith("nothing in 10 seconds: do_sys_openat2 may not be called now, ")
    assert (tracefs.read("dynamic_events"), tracefs.listdir("instances"), trace.undo_failures) == (b"", [], ())
    tracefs.close()


class Refusing:
    """A tracefs on which no trigger can be set."""

    def __init__(self, tracefs: Any, number: int) -> None:
        self._tracefs = tracefs
        self._number = number

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tracefs, name)

    def write(self, path: str, data: bytes, **options: Any) -> None:
        if path.endswith("/trigger"):
            raise OSError(self._number, "no", path)
        self._tracefs.write(path, data, **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "is_misread"),
    [
        ("dfd=%di", True),
        ("dfd=$arg1:s32", True),
        ("path=+0(%di):ustring", True),
        ("path=+0(%si):ustring", True),
        ("path=+0($arg2):ustring", True),
        ("dfd=+112(%di):s32", False),
        ("path=+0(+104($arg1)):ustring", False),
        ("regs=$arg1:x64", False),
        ("$comm stack=$stack1", False),
    ],
)
def test_what_is_misread_of_a_wrapper(machine: Any, arguments: str, is_misread: bool) -> None:
    """Its only argument points to the registers: what follows that pointer is what was meant."""
    found = examine(machine, [f"p:__x64_sys_openat {arguments}"]).findings
    assert any(one.check == "wrapper" for one in found) == is_misread


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"cpus": [1]}, "vfs_read was hit once (kprobe_profile), but never on CPU 1"),
        (
            {"cpus": [1, 2], "filter": "common_pid == 7"},
            "vfs_read was hit once (kprobe_profile), but never on CPUs 1, 2 with what the filter 'common_pid == 7' "
            "lets through",
        ),
    ],
)
def test_cpus_that_were_picked_are_no_finding(options: dict[str, Any], text: str) -> None:
    kernel = SimulatedKernel("6.12", cpus=3)
    with Tracer(kernel.tracefs).trace("p:vfs_read", **options) as trace:
        kernel.call("vfs_read", task=Task(42, "cat"), args=(1, 2, 3), returns=0, cpu=0)
        assert explain(trace, 10) == f"nothing in 10 seconds: {text}"
