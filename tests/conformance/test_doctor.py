"""`kprobe doctor` everywhere: what it finds, and that it writes nothing.  No process has the pid 4194305."""

from __future__ import annotations

import errno
import json
from typing import Any

import pytest

from kprobe import Tracer, Unsupported
from kprobe.cli import main
from kprobe.doctor import report
from kprobe.doctor.examination import Examination, examine
from kprobe.doctor.silence import explain
from kprobe.doctor.trying import try_probe
from kprobe.undo.owners import Owner, this_process
from kprobe_sim import Task

from .builds import BTF, EPROBES
from .text import define, switch

GONE = Owner(4194305, 7, this_process().namespace).session(0)
QUIET = "Nothing was found that stops tracing.\n"


class Idle:
    """A tracefs whose backend doesn't tell of its activity, which isn't played here."""

    def __init__(self, tracefs: Any) -> None:
        self._tracefs = tracefs

    def __getattr__(self, name: str) -> Any:
        if name in ("never_calls", "play"):
            raise AttributeError(name)
        return getattr(self._tracefs, name)


class ReadOnly(Idle):
    """A tracefs that refuses whatever could change it, and what waits or takes away: a stream."""

    def __getattr__(self, name: str) -> Any:
        if name in ("write", "mkdir", "rmdir", "stream", "open", "unlink", "truncate"):
            raise AssertionError(f"{name} was called")
        return super().__getattr__(name)

    def read(self, path: str) -> bytes:
        assert "trace_pipe" not in path
        found: bytes = self._tracefs.read(path)
        return found


def said(tracefs: Any, *words: str) -> str:
    """Return the report on what was found; what can't be known is another matter on each backend.

    Optimisation is switched off for this suite.
    """
    found = examine(ReadOnly(tracefs), words).findings
    return report.text(Examination([finding for finding in found if finding.check != "optimisation"]))


@pytest.mark.slow
def test_a_machine_that_is_well(tracefs: Any) -> None:
    assert said(tracefs) == QUIET
    assert said(tracefs, "vfs_read") == QUIET
    assert examine(tracefs, ["p:mine do_sys_openat2"]).stops is False


def test_recording_is_off(tracefs: Any) -> None:
    tracefs.write("tracing_on", b"0\n")
    assert said(tracefs) == (
        "STOPS: recording is switched off at the top level\n  fact: tracing_on: 0\n  help: echo 1 > tracing_on\n"
    )


def test_an_instance_that_does_not_record(tracefs: Any) -> None:
    tracefs.mkdir("instances/other")
    tracefs.write("instances/other/tracing_on", b"0\n")
    assert said(tracefs) == (
        "NOTE: recording is switched off at instances/other\n"
        "  fact: instances/other/tracing_on: 0\n"
        "  help: echo 1 > instances/other/tracing_on\n"
        "Nothing was found that stops tracing, but see the notes.\n"
    )
    tracefs.rmdir("instances/other")


def test_no_cpu_records(tracefs: Any) -> None:
    cpus = len(tracefs.listdir("per_cpu"))
    tracefs.write("tracing_cpumask", b"0\n")
    assert said(tracefs) == (
        "STOPS: the top level records on no CPU\n"
        "  fact: tracing_cpumask: 0\n"
        f"  help: echo {(1 << cpus) - 1:x} > tracing_cpumask\n"
    )
    tracefs.write("tracing_cpumask", b"%x\n" % ((1 << cpus) - 1))
    assert said(tracefs) == QUIET


def test_threads_that_are_picked(tracefs: Any, workload: Any) -> None:
    tracefs.write("set_event_pid", b"%d\n" % workload.pid)
    assert said(tracefs) == (
        f"NOTE: at the top level only thread {workload.pid} fires events\n"
        f"  fact: set_event_pid: {workload.pid}\n"
        "  help: echo > set_event_pid\n"
        "Nothing was found that stops tracing, but see the notes.\n"
    )


def test_a_small_buffer_that_lost_events(tracefs: Any, workload: Any) -> None:
    tracefs.write("buffer_size_kb", b"4\n")
    size = int(tracefs.read("buffer_size_kb"))
    define(tracefs, "p:mine do_sys_openat2")
    switch(tracefs, 1, "kprobes/mine")
    workload.open("/etc/hostname", repeat=2000)
    switch(tracefs, 0, "kprobes/mine")
    lost, overrun, helps, small, fact, again, rest = said(tracefs).splitlines()
    count = int(lost.split()[1])
    assert count > 500
    assert lost == f"NOTE: {count} events of the top level were overwritten by later ones: its buffer is full"
    assert overrun == f"  fact: per_cpu/*/stats: overrun: {count}"
    assert small == f"NOTE: the buffer of the top level is small: {size} KiB for each CPU"
    assert (helps, fact) == ("  help: echo 512 > buffer_size_kb", f"  fact: buffer_size_kb: {size}")
    assert (again, rest) == (helps, "Nothing was found that stops tracing, but see the notes.")


def test_what_others_do(tracefs: Any) -> None:
    define(tracefs, "p:theirs vfs_symlink dfd=%di:s32")
    switch(tracefs, 1, "kprobes/theirs")
    tracefs.write("events/kprobes/theirs/filter", b"dfd == 7\n")
    tracefs.write("events/kprobes/theirs/trigger", b"traceoff:1\n")
    assert said(tracefs) == (
        "NOTE: 1 event is enabled at the top level\n"
        "  fact: set_event: kprobes:theirs\n"
        "  help: echo > set_event, if nobody uses them\n"
        "NOTE: a filter of kprobes/theirs is set at the top level: only what it passes is recorded\n"
        "  fact: events/kprobes/theirs/filter: dfd == 7\n"
        "  help: echo 0 > events/kprobes/theirs/filter\n"
        "NOTE: a hit of kprobes/theirs switches recording off at the top level\n"
        "  fact: events/kprobes/theirs/trigger: traceoff:count=1\n"
        "  help: echo '!traceoff' > events/kprobes/theirs/trigger\n"
        "Nothing was found that stops tracing, but see the notes.\n"
    )
    tracefs.write("events/kprobes/theirs/trigger", b"!traceoff\n")


def test_an_event_that_is_never_hit(tracefs: Any, workload: Any) -> None:
    define(tracefs, "p:busy do_sys_openat2", "p:idle vfs_symlink", "p:off vfs_symlink")
    switch(tracefs, 1, "kprobes/busy", "kprobes/idle")
    workload.open("/etc/hostname")
    lines = said(tracefs, "vfs_symlink").splitlines()
    assert lines[3:-1] == [
        "NOTE: kprobes/idle is enabled but was never hit, while others were",
        "  fact: kprobe_profile: idle 0 0",
        "  help: kprobe doctor vfs_symlink",
        "NOTE: kprobes/off is on vfs_symlink, but isn't enabled",
        "  fact: events/kprobes/off/enable: 0",
        "  help: echo 1 > events/kprobes/off/enable",
    ]


def test_what_a_killed_kprobe_left(tracefs: Any) -> None:
    define(tracefs, f"p:{GONE}/myopen do_sys_openat2")
    tracefs.mkdir(f"instances/{GONE}")
    assert said(tracefs) == (
        "NOTE: a kprobe that was killed left something behind: process 4194305 is gone\n"
        f"  fact: instances/{GONE}: {GONE}/myopen\n"
        "  help: kprobe clean\n"
        "Nothing was found that stops tracing, but see the notes.\n"
    )
    tracefs.rmdir(f"instances/{GONE}")


@pytest.mark.slow
def test_functions(tracefs: Any) -> None:
    text = said(tracefs, "do_int3", "vfs_reed", "nosuch:vfs_read", "p:__x64_sys_openat name=$arg2", "do_sys_open")
    head, notes = text.split("NOTE", 1)
    lines = head.splitlines()
    assert lines[:3] == [
        "STOPS: do_int3 can't be probed: a probe there could hang the kernel",
        "  fact: /sys/kernel/debug/kprobes/blacklist: do_int3",
        "  help: probe a function that calls it, or that it calls",
    ]
    assert lines[3:5] == [
        "STOPS: this kernel has no function vfs_reed: it was inlined, renamed, or never there",
        "  fact: available_filter_functions: no vfs_reed",
    ]
    assert lines[5].startswith("  fact: near: vfs_read, ")
    assert lines[6:8] == ["  help: kprobe p:vfs_read", "STOPS: the module nosuch isn't loaded"]
    assert lines[9] == "  help: modprobe nosuch"
    assert f"NOTE{notes}" == (
        "NOTE: __x64_sys_openat gets one argument, a pointer to registers: the system call's arguments are behind it\n"
        "  fact: definition: name=$arg2\n"
        "  help: kprobe args __x64_sys_openat\n"
        "NOTE: do_sys_open may rarely be called: this kernel has do_sys_openat2, which took over from it\n"
        "  fact: available_filter_functions: do_sys_openat2\n"
        "  help: kprobe p:do_sys_openat2\n"
    )


@pytest.mark.slow
def test_a_try_counts_and_leaves_nothing(tracefs: Any, workload: Any) -> None:
    before = tracefs.read("kprobe_events"), tracefs.listdir("instances")
    (probe,) = examine(tracefs, ["vfs_symlink"]).probes
    (found,) = try_probe(Idle(tracefs), probe, 0.2)
    assert (found.what, found.facts[0].says) == ("vfs_symlink wasn't called in 0.2 seconds", "vfs_symlink 0 0")
    (probe,) = examine(tracefs, ["p:mine do_sys_openat2 %nosuch"]).probes
    (found,) = try_probe(Idle(tracefs), probe, 0.2)
    assert (found.level, found.facts[0].says) == ("stops", "Invalid register name")
    assert (tracefs.read("kprobe_events"), tracefs.listdir("instances")) == before


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"filter": "dfd == 77"}, "but the filter 'dfd == 77' let none through"),
        ({"pid": 2}, "but never by process 2"),
        ({"tid": 2, "cpus": [0]}, "but never by thread 2 on CPU 0"),
        ({"pid": 2, "filter": "dfd == 77"}, "but never by process 2 with what the filter 'dfd == 77' lets through"),
    ],
)
def test_hits_that_are_held_back(tracefs: Any, workload: Any, options: dict[str, Any], why: str) -> None:
    """The kernel counts them all the same."""
    if (kernel := getattr(tracefs, "kernel", None)) is not None:
        kernel.tasks[2] = Task(2, "kthreadd")
    with Tracer(tracefs).trace("p:mine do_sys_openat2 dfd=%di:s32", **options) as trace:
        for _ in range(3):
            workload.open("/etc/hostname", dfd=-100)
        text = explain(trace, 10)
    head, _, rest = text.partition(" times (kprobe_profile), ")
    assert head.startswith("nothing in 10 seconds: do_sys_openat2 was hit ")
    assert int(head.rpartition(" ")[2]) >= 3
    assert rest.startswith(why)


@pytest.mark.parametrize(
    ("mark", "definition", "name"),
    [
        (EPROBES, "e:mine syscalls/sys_enter_openat dfd=$dfd:s32", "syscalls.sys_enter_openat"),
        (BTF, "f:mine do_sys_openat2 dfd=$arg1:s32", "do_sys_openat2"),
    ],
)
def test_hits_of_which_the_kernel_keeps_no_count(
    tracefs: Any, workload: Any, mark: str, definition: str, name: str
) -> None:
    """A hist trigger counts them from then on, and is gone with the trace."""
    trace = Tracer(tracefs).trace(definition, filter="dfd == 77")
    if mark not in tracefs.read("README").decode():
        with pytest.raises(Unsupported), trace:
            pass
        return
    with trace:
        workload.open("/etc/hostname", dfd=-100)
        assert trace.hits() is None
        trace.count_hits()
        for _ in range(3):
            workload.open("/etc/hostname", dfd=-100)
        trace.count_hits()
        text = explain(trace, 10)
        assert b"hist:" in tracefs.read(trace.instance.path(f"events/{trace.probe.event}/trigger"))
    head, _, rest = text.partition(" times (a hist trigger), ")
    assert head.startswith(f"nothing in 10 seconds: {name} was hit ")
    assert int(head.rpartition(" ")[2]) >= 3
    assert rest == "but the filter 'dfd == 77' let none through; without the filter you see what values there are"
    assert (tracefs.read("dynamic_events"), tracefs.listdir("instances"), trace.undo_failures) == (b"", [], ())


def test_a_function_that_was_not_called(tracefs: Any) -> None:
    with Tracer(Idle(tracefs)).trace("p:mine vfs_symlink") as trace:
        assert explain(trace, 10) == (
            "nothing in 10 seconds: vfs_symlink was not called (kprobe_profile: 0 hits); kprobe doctor vfs_symlink "
            "looks further"
        )
    with Tracer(Idle(tracefs)).trace("r:mine vfs_symlink") as trace:
        assert explain(trace, 10) == (
            "nothing in 10 seconds: no call of vfs_symlink that began since has returned: p: shows the calls; kprobe "
            "doctor vfs_symlink looks further"
        )


def test_a_trace_that_is_not_silent(tracefs: Any, workload: Any) -> None:
    """What a view keeps to the end, or the buffer does, was recorded."""
    with Tracer(tracefs).trace("p:mine do_sys_openat2") as trace:
        workload.open("/etc/hostname")
        assert explain(trace, 10) == ""
    with Tracer(tracefs).trace("p:mine do_sys_openat2", top_level=True) as trace:
        workload.open("/etc/hostname")
        assert explain(trace, 10) == ""
        while trace.read(1).count(b"mine:") < 1:
            pass
        assert explain(trace, 10) == ""


def test_an_instance_that_was_switched_off(tracefs: Any, workload: Any) -> None:
    with Tracer(tracefs).trace("p:mine do_sys_openat2") as trace:
        path = trace.instance.path("tracing_on")
        tracefs.write(path, b"0\n")
        tracefs.write(trace.instance.path("trace"), b"", truncate=True)
        workload.open("/etc/hostname")
        place = path.rpartition("/")[0]
        assert explain(trace, 10) == (
            f"nothing in 10 seconds: recording is switched off at {place} ({path}: 0): echo 1 > {path}"
        )


def test_a_process_that_is_gone(tracefs: Any, workload: Any) -> None:
    class Later:
        """The tracefs after the process has ended."""

        def __getattr__(self, name: str) -> Any:
            return getattr(tracefs, name)

        def threads(self, pid: int) -> list[int]:
            raise ProcessLookupError(errno.ESRCH, "No such process", str(pid))

    with Tracer(tracefs).trace("p:mine do_sys_openat2", pid=workload.pid) as trace:
        trace.tracefs = Later()  # type: ignore[assignment]
        expected = f"nothing in 10 seconds: there is no process {workload.pid} any more, and nothing else is traced"
        assert explain(trace, 10) == expected
        trace.tracefs = tracefs


@pytest.mark.slow
def test_the_command(tracefs: Any, capfd: Any) -> None:
    if hasattr(tracefs, "machine"):
        tracefs.machine.files.write("proc/sys/debug/kprobes-optimization", b"1")
    assert main(["doctor"], tracefs=ReadOnly(tracefs)) == 0
    assert capfd.readouterr().out.startswith(f"{QUIET}Not known here: ")
    assert main(["doctor", "vfs_reed", "--json"], tracefs=ReadOnly(tracefs)) == 1
    found = json.loads(capfd.readouterr().out)
    assert found["facts"][1]["says"].startswith("vfs_read, ")
    del found["facts"][1]
    assert found == {
        "level": "stops",
        "check": "function",
        "what": "this kernel has no function vfs_reed: it was inlined, renamed, or never there",
        "facts": [{"source": "available_filter_functions", "says": "no vfs_reed"}],
        "helps": "kprobe p:vfs_read",
    }


def test_a_tracepoint_that_is_not_there(tracefs: Any) -> None:
    """Kernels with such probes from 6.12 on take them, as a module may bring it."""
    if BTF not in tracefs.read("README").decode():
        with pytest.raises(Unsupported), Tracer(tracefs).trace("t:nosuch"):
            pass
        return
    none = "there is no tracepoint nosuch now: it has another name, or its module isn't loaded"
    (found,) = tracepoints(tracefs, "t:nosuch", "t:sched_switch")
    assert (found.level, found.what, found.facts[0].says) == ("note", none, "no __traceiter_nosuch")
    with Tracer(Idle(tracefs)).trace("t:nosuch") as trace:
        assert explain(trace, 10) == f"nothing in 10 seconds: {none}"


def tracepoints(tracefs: Any, *words: str) -> list[Any]:
    return [finding for finding in examine(Idle(tracefs), words).findings if finding.check == "tracepoint"]
