"""Triggers written to real kernels, written to the simulator: the same errno, read-back, states, traces."""

from __future__ import annotations

import errno
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kprobe_sim import SimulatedKernel
from kprobe_sim.builds.gates import filter_gates
from kprobe_sim.kernel.workload import SimulatedWorkload
from kprobe_sim.tree.trigger_file import put_trigger, trigger_lines

FIXTURES = Path(__file__).parents[2] / "fixtures" / "triggers"
SERIES = {"5.10": (5, 10, 262), "6.1": (6, 1, 190), "6.12": (6, 12, 117), "7.2": (7, 2, 13)}
FLT = (
    b"p:flt do_sys_openat2 dfd=%di:s32 flags=+0(%dx) u64f=+0(%dx):u64 f8=+0(%dx):u8 x32f=+0(%dx):x32"
    b" bf=+0(%dx):b1@15/32 ptr=%si sym=$stack0:symbol arr=+0(%si):u8[2] com=$comm s=+0(%si):string end=%di"
)
TRIGGER = "events/kprobes/ent/trigger"


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FIXTURES / f"{name}.jsonl").read_text().splitlines()]


def unstamped(text: bytes) -> str:
    return re.sub(r"\[ *[0-9]+\.[0-9]+\] ", "", text.decode("latin-1"))


def written(kernel: SimulatedKernel, path: str, text: str) -> int | str:
    """Write once; return the bytes taken, or the name of the errno."""
    try:
        with kernel.tracefs.open(path, 1) as file:
            return file.write(text.encode("latin-1"))
    except OSError as error:
        return errno.errorcode[error.errno or 0]


class Outcome(NamedTuple):
    errno: str | None
    ret: int
    readback: str
    errlog: str


def played(series: str) -> list[Outcome]:
    """Play the recording of a series: who wrote and read the files opened them, and so hit the probed function."""
    kernel = SimulatedKernel("6.1", cpus=2)
    kernel.machine.filter_gates = filter_gates(SERIES[series])
    kernel.tracefs.write("kprobe_events", FLT)
    kernel.tracefs.write("kprobe_events", b"p:flt2 do_sys_openat2")
    file = kernel.top.find("kprobes", "flt")
    assert file is not None
    available = rows(series)[-1]["readback"].encode()
    task = SimulatedWorkload(kernel)
    outcomes = []
    for row in rows(series):
        kernel.top.error_log.clear()
        task.open("events/kprobes/flt/trigger", 1)
        number, ret = None, -1
        try:
            ret = put_trigger(file, row["input"].encode("latin-1"), available, lambda: kernel.hists)
        except OSError as error:
            number = errno.errorcode[error.errno or 0]
        task.open("events/kprobes/flt/trigger")
        back = b"".join(trigger_lines(file, available)).decode("latin-1")
        outcomes.append(Outcome(number, ret, back, unstamped(kernel.top.error_log.text())))
    return outcomes


@pytest.mark.parametrize(("series", "count"), [("5.10", 73), ("6.1", 91), ("6.12", 92), ("7.2", 92)])
def test_a_recorded_write_has_the_same_answer(every: Any, series: str, count: int) -> None:
    def check(pair: tuple[dict[str, Any], Outcome]) -> None:
        row, outcome = pair
        assert outcome._replace(errlog=row.get("errlog", outcome.errlog)) == outcome
        assert (outcome.errno, outcome.ret, outcome.readback) == (row["errno"], row["ret"], row["readback"])

    pairs = zip(rows(series), played(series), strict=True)
    every([(f"{at} {row['input']!r}", (row, outcome)) for at, (row, outcome) in enumerate(pairs)], check, of=count)


def new_kernel() -> SimulatedKernel:
    kernel = SimulatedKernel("6.1", cpus=2)
    kernel.tracefs.write("kprobe_events", b"p:ent do_sys_openat2 dfd=%di:s32 s=+0(%si):ustring flags=%dx:x32")
    kernel.tracefs.write("kprobe_events", b"p:tgt do_sys_openat2 a=%di")
    kernel.tracefs.write("events/kprobes/ent/filter", b'comm == "workload"')
    return kernel


@pytest.fixture
def kernel() -> SimulatedKernel:
    return new_kernel()


def read(kernel: SimulatedKernel, path: str) -> str:
    return kernel.tracefs.read(path).decode("latin-1")


def check_grammar(row: dict[str, Any]) -> None:
    kernel = new_kernel()
    assert written(kernel, TRIGGER, row["input"]) == row["result"]
    assert read(kernel, TRIGGER) == row["readback"]
    assert unstamped(kernel.tracefs.read("error_log")) == row["errlog"]
    assert read(kernel, "events/kprobes/ent/enable") == row["enable"]
    assert read(kernel, "events/kprobes/tgt/enable") == row["target_enable"]
    for line, result in zip(row["readback"].splitlines(), row["removed"], strict=False):
        plain = re.sub(r" \[(active|paused)\]", "", line.replace(":unlimited", "").replace(":count=", ":"))
        assert written(kernel, TRIGGER, f"!{plain}") == result


def test_the_grammar(every: Any) -> None:
    every([(repr(row["input"]), row) for row in rows("grammar")], check_grammar, of=106)


def test_a_sequence_of_writes_and_hits(kernel: SimulatedKernel) -> None:
    task = SimulatedWorkload(kernel)
    for row in rows("sequences"):
        step = row.pop("step")
        if isinstance(step, list):
            path, text, result = step
            assert written(kernel, path, text) == result, step
        elif step.startswith("hit"):
            task.open("/hit", repeat=int(step[3:]))
        states = {
            "trigger": read(kernel, TRIGGER),
            "enable": read(kernel, "events/kprobes/ent/enable"),
            "target_enable": read(kernel, "events/kprobes/tgt/enable"),
            "group_enable": read(kernel, "events/kprobes/enable"),
            "tracing_on": read(kernel, "tracing_on"),
            "set_event": read(kernel, "set_event"),
        }
        assert states == row, step


def body(text: str) -> list[str]:
    """Return the records, as the fixtures have them: without CPU, time, pid and what differs from boot to boot."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    text = "\n".join(re.sub(r"-\d+ +\[\w+\] (\S+) +[\d.T]+: ", r" [C] \1 T: ", line) for line in lines)
    return re.sub(r"flags=0x\w+|0xffffffffc0\w+", "X", text).splitlines()


EFFECTS = {
    "traceoff_en": ("traceoff", True),
    "traceoff_dis": ("traceoff", False),
    "traceon": ("traceon", True),
    "snapshot": ("snapshot", True),
    "snapshot_nofilter_cmp": ("snapshot", False),
    "enable_self": ("enable_event:kprobes:ent", False),
    "enable_tgt": ("enable_event:kprobes:tgt", False),
    "disable_self": ("disable_event:kprobes:ent", True),
    "stack_dis": ("stacktrace", False),
}


@pytest.mark.parametrize("row", [row for row in rows("effects") if row["name"] in EFFECTS], ids=lambda row: row["name"])
def test_what_the_buffer_holds(kernel: SimulatedKernel, row: dict[str, Any]) -> None:
    trigger, enabled = EFFECTS[row["name"]]
    if trigger == "traceon":
        kernel.tracefs.write("tracing_on", b"0")
    kernel.tracefs.write(TRIGGER, f'{trigger} if comm == "workload"'.encode())
    if enabled:
        kernel.tracefs.write("events/kprobes/ent/enable", b"1")
    task = SimulatedWorkload(kernel)
    task.open("/one")
    task.open("/two")
    trace = read(kernel, "trace")
    assert read(kernel, "tracing_on") == row["tracing_on"]
    assert row["entries"] in trace
    assert body(trace) == body("\n".join(row["trace"]))
    snapshot = read(kernel, "snapshot")
    if isinstance(row["snapshot"], str):
        assert f"# * Snapshot is {row['snapshot']} *\n" in snapshot
    else:
        assert body(snapshot) == body("\n".join(row["snapshot"]))


STACKS = {
    "single": ["p:e do_sys_openat2"],
    "aggr": ["p:e do_sys_openat2", "p:f do_sys_openat2"],
    "entret": ["p:e do_sys_openat2", "r:f do_sys_openat2"],
    "ret": ["r:f do_sys_openat2"],
    "mid5": ["p:e do_sys_openat2+5"],
}


@pytest.mark.parametrize("row", rows("stacks"), ids=lambda row: row["name"])
def test_stacks(row: dict[str, Any]) -> None:
    """The probes after the entry are those that the kernel hasn't turned into jumps yet."""
    kernel = SimulatedKernel("6.1")
    kernel.tracefs.write("options/sym-offset", b"1")
    way, _, name = row["name"].partition("_")
    for definition in STACKS[name]:
        kernel.tracefs.write("kprobe_events", definition.encode())
        kernel.tracefs.write(f"events/kprobes/{definition[2]}/enable", b"1")
    if way == "t":
        event = "f" if name == "ret" else "e"
        kernel.tracefs.write(f"events/kprobes/{event}/trigger", b'stacktrace if comm == "workload"')
    else:
        kernel.tracefs.write("options/stacktrace", b"1")
    SimulatedWorkload(kernel).open("/one")
    assert body(read(kernel, "trace")) == body("\n".join(row["trace"]))


def test_triggers_of_the_marker() -> None:
    kernel = SimulatedKernel("6.1")
    for row in rows("marker"):
        if "trace" in row:
            assert [line.partition(" [C] ")[2] or line for line in body(read(kernel, "trace"))] == [
                line.partition(" [C] ")[2] or line for line in body("\n".join(row["trace"]))
            ]
            continue
        assert written(kernel, row["path"], row["input"]) == row["result"]
        assert read(kernel, "events/ftrace/print/trigger") == row["readback"]
        assert read(kernel, "tracing_on") == row["tracing_on"]


def test_triggers_of_one_instance_leave_the_others_alone(kernel: SimulatedKernel) -> None:
    kernel.tracefs.mkdir("instances/i")
    kernel.tracefs.write("instances/i/" + TRIGGER, b"traceoff")
    SimulatedWorkload(kernel).open("/one")
    assert read(kernel, "instances/i/tracing_on") == "0\n"
    assert read(kernel, "tracing_on") == "1\n"
    assert written(kernel, "kprobe_events", "-:ent") == "EBUSY"
    kernel.tracefs.rmdir("instances/i")
    assert written(kernel, "kprobe_events", "-:ent") == 5


def test_a_static_event_keeps_and_lists_triggers() -> None:
    kernel = SimulatedKernel("6.1")
    path = "events/sched/sched_switch/trigger"
    assert written(kernel, path, "traceoff:3 if prev_pid == 1") == 27
    assert read(kernel, path) == "traceoff:count=3 if prev_pid == 1\n"
    assert read(kernel, "events/sched/sched_switch/enable") == "0*\n"


def test_a_histogram_is_paused_and_goes_on(kernel: SimulatedKernel) -> None:
    assert read(kernel, "events/kprobes/ent/hist") == ""
    kernel.tracefs.write(TRIGGER, b"hist:keys=dfd")
    assert written(kernel, TRIGGER, "hist:keys=dfd:onmatch(kprobes.tgt).trace(x)") == "EINVAL"
    assert written(kernel, TRIGGER, "hist:keys=dfd") == "EEXIST"
    assert written(kernel, TRIGGER, "hist:keys=dfd:pause") == 19
    assert read(kernel, TRIGGER).endswith("[paused]\n")
    SimulatedWorkload(kernel).open("/one")
    assert "    Hits: 0\n" in read(kernel, "events/kprobes/ent/hist")
    assert written(kernel, TRIGGER, "hist:keys=dfd:cont") == 18
    SimulatedWorkload(kernel).open("/one")
    assert "{ dfd: 18446744073709551516 } hitcount:          1\n" in read(kernel, "events/kprobes/ent/hist")
