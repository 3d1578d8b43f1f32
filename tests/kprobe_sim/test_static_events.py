"""Static events: their records and texts as recorded from real kernels, and how they are emitted."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest

from kprobe_sim import SimulatedKernel, Task
from kprobe_sim.events.static.static_record import Layout
from kprobe_sim.text.c_expression import NotEvaluable
from kprobe_sim.text.print_fmt import dynamic
from kprobe_sim.text.render import flag_letters
from kprobe_sim.text.static_text import static_text

FIXTURES = Path(__file__).parents[2] / "fixtures" / "static"
SERIES = ("5.10", "6.1", "6.12", "7.2")
# their formats have names of enums in place of numbers
DIRTY = ("writeback_dirty_inode", "writeback_dirty_inode_start", "writeback_mark_inode_dirty")
NOT_SHOWN = {"7.2": {f"writeback/{name}" for name in DIRTY}}
SHELL, CAT = Task(42, "sh"), Task(43, "cat")


def records(series: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (FIXTURES / f"{series}.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("series", SERIES)
def test_recorded_texts(series: str) -> None:
    kernel = SimulatedKernel(series)
    hashed = kernel.profile.options and any(name == "hash-ptr" for name, _ in kernel.profile.options)
    wrong = []
    refused = set()
    rows = records(series)
    for row in rows:
        event = kernel.statics.event(row["event"])
        try:
            text = static_text(kernel.machine, event, hashed=hashed)(bytes.fromhex(row["record"]))
        except NotEvaluable:
            refused.add(row["event"])
            continue
        wanted = re.escape(row["text"].encode("latin-1") + b"\n")
        wanted = wanted.replace(re.escape(b"(____ptrval____)"), b"[0-9a-f]{16}")
        if not re.fullmatch(wanted, text):
            wrong.append((row["event"], row["text"], text))
    assert wrong == []
    assert refused == NOT_SHOWN.get(series, set())
    assert len(rows) > 300


def values(layout: Layout, record: bytes) -> dict[str, Any]:
    """Read a record back by its format, each field as `emit` takes it."""
    found: dict[str, Any] = {}
    for field in layout.fields:
        if field.type.startswith("__data_loc"):
            found[field.name] = dynamic(field, record)
        elif "[" in field.type:
            found[field.name] = record[field.offset : field.offset + field.size]
        else:
            data = record[field.offset : field.offset + field.size]
            found[field.name] = int.from_bytes(data, "little", signed=field.signed) if field.size <= 8 else data
    return found


@pytest.mark.parametrize("series", SERIES)
def test_recorded_layouts(series: str) -> None:
    kernel = SimulatedKernel(series)
    wrong = []
    for row in records(series):
        record = bytes.fromhex(row["record"])
        layout = Layout(kernel.statics.event(row["event"]))
        if any(not field.size for field in layout.fields):
            continue
        packed = layout.pack(record[:8], values(layout, record), lambda text: 0)
        covered = bytearray(len(record))
        for field in layout.fields:
            covered[field.offset : field.offset + field.size] = b"\xff" * field.size
            if field.type.startswith("__data_loc"):
                start, size = struct.unpack_from("<HH", record, field.offset)
                covered[start : start + size] = b"\xff" * size
        covered[:8] = b"\xff" * 8
        padded = packed.ljust(-(-len(packed) // 4) * 4, b"\0")
        if len(padded) != len(record) or any(
            ours != theirs for ours, theirs, sure in zip(padded, record, covered, strict=True) if sure
        ):
            wrong.append((row["event"], row["record"], padded.hex()))
    assert wrong == []


@pytest.mark.parametrize("series", SERIES)
def test_usual_contexts(series: str) -> None:
    """Where all records of an event have the same letters, an event that is emitted has them too."""
    kernel = SimulatedKernel(series)
    kernel.tracefs.write("buffer_size_kb", b"1024")
    seen: dict[str, set[str]] = {}
    for row in records(series):
        if row["event"].startswith(("sched/sched_sw", "sched/sched_process_", "task/", "syscalls/", "raw_syscalls/")):
            seen.setdefault(row["event"], set()).add(re.sub("[NlB]", ".", row["letters"]))
    compared = 0
    for name, letters in seen.items():
        if len(letters) != 1:
            continue
        kernel.tracefs.write(f"events/{name}/enable", b"1")
        kernel.emit(name)
        entry = kernel.top.buffer.unread()[-1]
        assert (name, flag_letters(entry.data[2], entry.data[3], kernel.gates).decode()) == (name, letters.pop())
        compared += 1
    assert compared > 60


def lines(kernel: SimulatedKernel, path: str = "trace") -> list[str]:
    """Return the trace without header and times."""
    text = kernel.tracefs.read(path).decode()
    return [re.sub(r" +\d+\.\d+: ", " ", line).strip() for line in text.splitlines() if not line.startswith("#")]


def test_what_a_task_does() -> None:
    kernel = SimulatedKernel("6.1")
    for system in ("raw_syscalls", "syscalls", "task", "sched"):
        kernel.tracefs.write(f"events/{system}/enable", b"1")
    kernel.fork(SHELL, Task(43, "sh"))
    cat = kernel.exec(Task(43, "sh"), "/bin/cat")
    with kernel.system_call("openat", task=cat, args=(0xFFFFFF9C, "/etc/hostname", 0, 0), returns=3):
        kernel.emit("sched/sched_waking", task=cat, fields={"comm": "rcu_preempt", "pid": 15, "prio": 120})
    kernel.exit(cat)
    kernel.switch(cat, SHELL, state=0x20)
    assert lines(kernel) == [
        "sh-42      [000] ..... task_newtask: pid=43 comm=sh clone_flags=1200000 oom_score_adj=0",
        "sh-42      [000] ..... sched_process_fork: comm=sh pid=42 child_comm=sh child_pid=43",
        "sh-42      [000] d..2. sched_wakeup_new: comm=sh pid=43 prio=120 target_cpu=000",
        "cat-43      [000] ...1. task_rename: pid=43 oldcomm=sh newcomm=cat oom_score_adj=0",
        "cat-43      [000] ..... sched_process_exec: filename=/bin/cat pid=43 old_pid=43",
        "cat-43      [000] ..... sys_enter: NR 257 (ffffff9c, 7f0000000000, 0, 0, 0, 0)",
        "cat-43      [000] ...1. sys_openat(dfd: ffffff9c, filename: 7f0000000000, flags: 0, mode: 0)",
        "cat-43      [000] d..4. sched_waking: comm=rcu_preempt pid=15 prio=120 target_cpu=000",
        "cat-43      [000] ..... sys_exit: NR 257 = 3",
        "cat-43      [000] ...1. sys_openat -> 0x3",
        "cat-43      [000] ..... sched_process_exit: comm=cat pid=43 prio=120",
        "cat-43      [000] d..2. sched_switch: prev_comm=cat prev_pid=43 prev_prio=120 prev_state=Z ==> next_comm=sh "
        "next_pid=42 next_prio=120",
    ]


def test_system_calls_with_user_memory() -> None:
    kernel = SimulatedKernel("7.2")
    kernel.tracefs.write("events/syscalls/enable", b"1")
    long = "/" + "x" * 80
    for name, args in (
        ("openat", (0xFFFFFF9C, "/tmp/f", 0o1101, 0o666)),
        ("openat", (0xFFFFFF9C, long, 0, 0)),
        ("openat", (0xFFFFFF9C, 0x1234, 0, 0)),
        ("write", (1, b"x\n", 2)),
        ("write", (1, b"y" * 70, 70)),
        ("unlink", ("/tmp/\x01f",)),
        ("getpid", ()),
    ):
        with kernel.system_call(name, task=SHELL, args=args):
            pass
    shown = [line.partition("..... ")[2] for line in lines(kernel) if "->" not in line]
    assert shown == [
        'sys_openat(dfd: 4294967196, filename: 139637976727552 "/tmp/f", flags: O_WRONLY|O_CREAT|O_TRUNC, mode: 0666)',
        f'sys_openat(dfd: 4294967196, filename: 139637976727552 "{long[:63]}...", flags: O_RDONLY)',
        'sys_openat(dfd: 4294967196, filename: 4660 "", flags: O_RDONLY)',
        'sys_write(fd: 1, buf: 0x7f0000000000 (78:0a) "x.", count: 2)',
        f'sys_write(fd: 1, buf: 0x7f0000000000 ({":".join(["79"] * 63)}, ...) "{"y" * 63}"..., count: 0x46)',
        'sys_unlink(pathname: 0x7f0000000000 "/tmp/.f")',
        "sys_getpid()",
    ]


def test_filters_and_triggers() -> None:
    kernel = SimulatedKernel("6.1")
    tracefs = kernel.tracefs
    tracefs.write("events/sched/sched_switch/filter", b"next_pid == 7 || prev_comm ~ 'c*'")
    tracefs.write("events/sched/sched_switch/enable", b"1")
    tracefs.write("events/sched/sched_process_exit/trigger", b"traceoff if pid == 9")
    for following in (7, 8):
        kernel.switch(SHELL, Task(following, "other"))
    kernel.switch(CAT, SHELL)
    kernel.exit(Task(8, "other"))
    assert tracefs.read("tracing_on") == b"1\n"
    kernel.exit(Task(9, "other"))
    assert tracefs.read("tracing_on") == b"0\n"
    assert [re.findall(r"_pid=(\d+)", line) for line in lines(kernel)] == [["42", "7"], ["43", "42"]]


def test_pid_filters_look_at_both_tasks_of_a_switch() -> None:
    kernel = SimulatedKernel("6.1")
    kernel.tracefs.write("set_event_pid", b"43")
    kernel.tracefs.write("events/sched/enable", b"1")
    kernel.switch(SHELL, CAT)
    kernel.switch(CAT, SHELL)
    kernel.switch(SHELL, Task(7, "other"))
    kernel.emit("sched/sched_wakeup", task=SHELL, fields={"comm": "cat", "pid": 43})
    kernel.emit("sched/sched_wakeup", task=SHELL, fields={"comm": "other", "pid": 7})
    kernel.exit(SHELL)
    assert [line.split(": ")[0].split()[-1] for line in lines(kernel)] == ["sched_switch"] * 2 + ["sched_wakeup"]


def test_forks_are_followed_and_exits_forgotten() -> None:
    kernel = SimulatedKernel("6.1")
    kernel.tracefs.write("trace_options", b"event-fork")
    kernel.tracefs.write("set_event_pid", b"42")
    kernel.fork(SHELL, CAT)
    assert kernel.tracefs.read("set_event_pid") == b"42\n43\n"
    kernel.exit(CAT)
    assert kernel.tracefs.read("set_event_pid") == b"42\n"


def test_instances_have_their_own() -> None:
    kernel = SimulatedKernel("6.1")
    kernel.tracefs.mkdir("instances/a")
    kernel.tracefs.write("instances/a/events/task/enable", b"1")
    kernel.fork(SHELL, CAT)
    assert lines(kernel) == []
    assert [line.split(": ")[0].split()[-1] for line in lines(kernel, "instances/a/trace")] == ["task_newtask"]


def test_strings_of_the_kernel() -> None:
    kernel = SimulatedKernel("6.1")
    kernel.tracefs.write("events/rcu/enable", b"1")
    kernel.tracefs.write("events/power/enable", b"1")
    kernel.emit("rcu/rcu_utilization", fields={"s": "Start context switch"})
    kernel.emit("power/suspend_resume", fields={"action": "no string of that kernel", "val": 3, "start": 1})
    assert [line.partition("..... ")[2] for line in lines(kernel)] == [
        "rcu_utilization: Start context switch",
        "suspend_resume: no string of that kernel[3] begin",
    ]


def test_hash_ptr() -> None:
    kernel = SimulatedKernel("6.1")
    kernel.tracefs.write("events/kmem/kfree/enable", b"1")
    place = kernel.symbols.lookup("do_sys_openat2")[0].address + 5
    kernel.emit("kmem/kfree", fields={"call_site": place, "ptr": 0xFFFF888003682F90})
    assert re.search(r"kfree: call_site=do_sys_openat2\+0x5/0x\w+ ptr=00000000[0-9a-f]{8}$", lines(kernel)[0])
    kernel.tracefs.write("trace_options", b"nohash-ptr")
    assert lines(kernel)[0].endswith(" ptr=ffff888003682f90")


def test_system_calls_with_types() -> None:
    kernel = SimulatedKernel("6.1")
    kernel.tracefs.write("events/syscalls/sys_enter_read/enable", b"1")
    kernel.tracefs.write("trace_options", b"verbose")
    with kernel.system_call("read", task=SHELL, args=(3, 0x1000, 16)):
        pass
    assert lines(kernel)[0].endswith("sys_read(unsigned int fd: 3, char * buf: 1000, size_t count: 10)")


def test_names_of_both_tasks_are_remembered() -> None:
    kernel = SimulatedKernel("6.1")
    kernel.tracefs.write("events/sched/sched_switch/enable", b"1")
    kernel.switch(SHELL, CAT)
    assert kernel.tracefs.read("saved_cmdlines") == b"42 sh\n43 cat\n"


@pytest.mark.parametrize(
    ("event", "fields", "message"),
    [
        ("sched/no_such", {}, "6.1.0-54-cloud-amd64 has no static event 'sched/no_such'"),
        ("ftrace/print", {}, "ftrace/print is an entry of the tracer's own, not an event that fires"),
        (
            "sched/sched_process_exit",
            {"pit": 1},
            "sched/sched_process_exit has no field 'pit'; its fields: comm, pid, prio",
        ),
        ("sched/sched_process_exit", {"pid": "x"}, "sched/sched_process_exit: 'x' is no value of pid_t pid"),
        ("sched/sched_process_exit", {"pid": 1 << 32}, "sched/sched_process_exit: 4294967296 is no value of pid_t pid"),
        ("timer/itimer_state", {"which": 1.5}, "timer/itimer_state: 1.5 is no value of int which"),
        ("xen/xen_mc_entry", {}, "xen/xen_mc_entry can't be shown: xen_hypercall_name() is a function of the kernel"),
    ],
)
def test_refused(event: str, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        SimulatedKernel("6.1").emit(event, fields=fields)


def test_no_such_cpu_or_system_call() -> None:
    kernel = SimulatedKernel("6.1", cpus=2)
    with pytest.raises(ValueError, match=r"^there is no CPU 2$"):
        kernel.emit("sched/sched_process_exit", cpu=2)
    with pytest.raises(ValueError, match=r"^x86-64 has no system call 'no_such'$"), kernel.system_call("no_such"):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("series", SERIES)
def test_most_events_can_be_shown(series: str) -> None:
    """What can't needs enums or functions that only the kernel's code has: a tenth at most."""
    kernel = SimulatedKernel(series)
    refused = 0
    for (system, name), event in kernel.events.static.all().items():
        if event.can_enable:
            try:
                kernel.emit(f"{system}/{name}")
            except ValueError:
                refused += 1
    assert refused < len(kernel.events.static.all()) / 10
