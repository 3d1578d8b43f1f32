"""Who reads, and who is picked, on kernels before 5.4.60 and 5.16: as a guest of 4.9.115 answered."""

from __future__ import annotations

import os
from errno import EBUSY, EINVAL, ENODEV

import pytest

from kprobe import Event, Tracer, UndoFailed
from kprobe_sim import SimulatedKernel
from kprobe_sim.kernel.workload import SimulatedWorkload
from kprobe_sim.machine.task import Task


@pytest.mark.parametrize(("release", "is_held"), [("3.13", False), ("4.9", True), ("4.19", True), ("5.4", False)])
def test_a_reader_holds_its_tracer_in_all_instances(release: str, is_held: bool) -> None:
    tracefs = SimulatedKernel(release).tracefs
    tracefs.mkdir("instances/a")
    pipe = tracefs.stream("trace_pipe")
    if is_held:
        with pytest.raises(OSError, match="instances/a") as refusal:
            tracefs.rmdir("instances/a")
        assert refusal.value.errno == EBUSY
        with pytest.raises(OSError, match="current_tracer") as refusal:
            tracefs.write("instances/a/current_tracer", b"function")
        assert refusal.value.errno == EBUSY
        pipe.close()
    tracefs.rmdir("instances/a")
    assert tracefs.listdir("instances") == []


def test_what_a_reader_of_another_tracer_holds_is_another() -> None:
    tracefs = SimulatedKernel("4.9").tracefs
    tracefs.mkdir("instances/a")
    tracefs.write("instances/a/current_tracer", b"function")
    with tracefs.stream("trace_pipe"):
        tracefs.rmdir("instances/a")


def test_an_instance_that_is_held_is_left_by_name() -> None:
    """The next session, or `kprobe clean`, removes it; its event is gone at once."""
    tracefs = SimulatedKernel("4.9").tracefs
    left = r"rmdir .*instances/kprobe_\d+_\d+_1"
    with Tracer(tracefs).trace("p:other vfs_read"):
        with pytest.raises(UndoFailed, match=left), Tracer(tracefs).trace("p:a vfs_open"):
            pass
        assert [line.split()[1] for line in tracefs.read("kprobe_events").decode().splitlines()] == ["vfs_read"]


@pytest.mark.parametrize(("release", "passing"), [("4.4", [7, 8]), ("4.9", [7, 8]), ("5.4", [7]), ("6.1", [7])])
def test_an_event_that_is_newer_than_the_picked_pids(release: str, passing: list[int]) -> None:
    """It fires for all threads, until pids are written again."""
    kernel = SimulatedKernel(release)
    tracefs = kernel.tracefs
    tracefs.write("set_event_pid", b"7")
    tracefs.write("kprobe_events", b"p:e vfs_read")
    tracefs.write("events/kprobes/e/enable", b"1")
    assert hits(kernel) == passing
    tracefs.write("set_event_pid", b"7")
    assert hits(kernel) == [7]


def hits(kernel: SimulatedKernel) -> list[int]:
    kernel.tracefs.write("trace", b"", truncate=True)
    for pid in (7, 8):
        kernel.call("vfs_read", task=Task(pid, "task"))
    lines = kernel.tracefs.read("trace").decode().splitlines()
    return [int(line.split("-")[1].split()[0]) for line in lines if not line.startswith("#")]


@pytest.mark.parametrize("release", ["4.4", "4.9", "5.4", "6.1"])
def test_a_trace_of_one_thread_sees_no_other(release: str) -> None:
    kernel = SimulatedKernel(release)
    with Tracer(kernel.tracefs).trace("p:e vfs_read", tid=7) as trace:
        for pid in (7, 8):
            kernel.call("vfs_read", task=Task(pid, "task"))
        trace.stop()
        assert [record.pid for record in trace if isinstance(record, Event)] == [7]


@pytest.mark.parametrize("name", ["enable", "filter"])
def test_files_of_an_event_that_is_gone(name: str) -> None:
    tracefs = SimulatedKernel("4.9").tracefs
    tracefs.write("kprobe_events", b"p:g/e vfs_read")
    with tracefs.open(f"events/g/e/{name}", os.O_RDONLY) as file:
        tracefs.write("kprobe_events", b"-:g/e")
        with pytest.raises(OSError, match="events/g/e") as refusal:
            file.read(100)
    assert refusal.value.errno == ENODEV


def test_the_flags_of_a_fork_have_its_signal() -> None:
    kernel = SimulatedKernel("4.9")
    kernel.tracefs.write("events/task/task_newtask/enable", b"1")
    SimulatedWorkload(kernel).fork()
    assert " clone_flags=11 oom_score_adj=0\n" in kernel.tracefs.read("trace").decode()


def test_the_refusal_of_a_system_call_is_a_long() -> None:
    kernel = SimulatedKernel("4.9")
    kernel.tracefs.write("kprobe_events", b"r:e sys_fadvise64 $retval")
    kernel.tracefs.write("events/kprobes/e/enable", b"1")
    SimulatedWorkload(kernel).fadvise(-1, 0, 0)
    assert " arg1=0xfffffffffffffff7\n" in kernel.tracefs.read("trace").decode()


def test_frame_pointers_pass_a_return_that_a_probe_replaced() -> None:
    """As a guest of 4.19.108 showed: a function has no frame yet at its entry: who called isn't looked at."""
    kernel = SimulatedKernel("4.19")
    tracefs = kernel.tracefs
    tracefs.write("kprobe_events", b"p:e ksys_fadvise64_64\nr:r ksys_fadvise64_64\np:after ksys_fadvise64_64+5\n")
    tracefs.write("trace_options", b"stacktrace")
    for event in ("e", "r", "after"):
        tracefs.write(f"events/kprobes/{event}/enable", b"1")
    chain = ["__x64_sys_fadvise64_64+0x1c", "do_syscall_64+0x51", "entry_SYSCALL_64_after_hwframe+0x44"]
    kernel.call("ksys_fadvise64_64", task=Task(31, "workload"), stack=chain, returns=-9)
    text = tracefs.read("trace").decode()
    frames = [line.removeprefix(" => ") for line in text.splitlines() if line.startswith(" => ")]
    above = ["do_syscall_64", "entry_SYSCALL_64_after_hwframe"]
    assert frames == [*["ksys_fadvise64_64", *above] * 2, "[unknown/kretprobe'd]", *above]


@pytest.mark.parametrize("definition", [b"p:u :0x2000", b"r:n/f :0x2000 $retval", b"p:u :0x10 %di", b"p:u :"])
def test_a_uprobe_without_a_path(definition: bytes) -> None:
    """As a guest of 4.19.108 refused it: the empty path is a directory, and the log says so."""
    kernel = SimulatedKernel("4.19")
    with pytest.raises(OSError, match="uprobe_events") as refusal:
        kernel.tracefs.write("uprobe_events", definition)
    assert (refusal.value.errno, kernel.probes.printed) == (
        EINVAL,
        ["trace_uprobe: Failed to parse address or file."],
    )


@pytest.mark.parametrize(("release", "is_known"), [("4.14", False), ("4.19", False), ("5.4", True)])
def test_common_cpu_in_a_filter(release: str, is_known: bool) -> None:
    tracefs = SimulatedKernel(release).tracefs
    tracefs.write("kprobe_events", b"p:a do_sys_open")
    path = "events/kprobes/a/filter"
    if is_known:
        tracefs.write(path, b"common_cpu > 256")
        return
    with pytest.raises(OSError, match="filter"):
        tracefs.write(path, b"common_cpu > 256")
    if release == "4.19":
        said = b"common_cpu > 256\n           ^\nparse_error: Field not found\n\n"
        assert tracefs.read(path) == said
    tracefs.write(path, b"cpu > 1")
