"""Synthetic events that histograms emit; lines and texts as ftracetest's inter-event tests expect them."""

from __future__ import annotations

import errno

import pytest

from kprobe_sim import SimulatedKernel, Task

WAKING, SWITCH = "events/sched/sched_waking", "events/sched/sched_switch"
START = b'hist:keys=comm:ts0=common_timestamp.usecs if comm=="ping"'
END = (
    b"hist:keys=next_comm:lat=common_timestamp.usecs-$ts0:onmatch(sched.sched_waking)"
    b'.latency($lat,next_pid,sched.sched_waking.prio,next_comm) if next_comm=="ping"'
)


@pytest.fixture
def kernel() -> SimulatedKernel:
    kernel = SimulatedKernel("6.1")
    kernel.tracefs.write("synthetic_events", b"latency u64 lat; pid_t pid; int prio; char comm[16]")
    kernel.tracefs.write(f"{WAKING}/trigger", START)
    kernel.tracefs.write(f"{SWITCH}/trigger", END)
    return kernel


def wake(kernel: SimulatedKernel) -> None:
    ping, idle = Task(9, "ping"), Task(0, "swapper/0")
    kernel.life.wake_up(ping, idle)
    kernel.switch(idle, ping)
    kernel.switch(ping, idle, state=1)


def test_an_event_is_emitted_between_two_others(kernel: SimulatedKernel) -> None:
    kernel.tracefs.write("events/synthetic/latency/enable", b"1")
    kernel.tracefs.write("events/synthetic/latency/trigger", b"hist:keys=pid,prio,comm:sort=pid,prio")
    wake(kernel)
    wake(kernel)
    lines = [line for line in kernel.tracefs.read("trace").decode().splitlines() if not line.startswith("#")]
    assert [line.partition(": ")[2] for line in lines] == ["latency: lat=1 pid=9 prio=120 comm=ping"] * 2
    assert (
        f"{{ pid:          9, prio:        120, comm: {'ping':<50} }} hitcount:          2\n"
        in kernel.tracefs.read("events/synthetic/latency/hist").decode()
    )


def test_a_field_of_another_event_comes_by_a_trigger_of_its_own(kernel: SimulatedKernel) -> None:
    made = b'hist:keys=comm:vals=hitcount:synthetic_prio=prio:sort=hitcount:size=2048 if comm=="ping" [active]\n'
    assert kernel.tracefs.read(f"{WAKING}/trigger").endswith(made)
    kernel.tracefs.write(f"{SWITCH}/trigger", b"!" + END)
    assert made not in kernel.tracefs.read(f"{WAKING}/trigger")


def test_what_is_referred_to_stays(kernel: SimulatedKernel) -> None:
    with pytest.raises(OSError) as refused:
        kernel.tracefs.write(f"{WAKING}/trigger", b"!" + START)
    assert refused.value.errno == errno.EBUSY
    with pytest.raises(OSError) as refused:
        kernel.tracefs.write("synthetic_events", b"!latency")
    assert refused.value.errno == errno.EBUSY
    kernel.tracefs.write(f"{SWITCH}/trigger", b"!" + END)
    kernel.tracefs.write(f"{WAKING}/trigger", b"!" + START)
    kernel.tracefs.write("synthetic_events", b"!latency")
    assert not kernel.tracefs.exists("events/synthetic/latency")


def test_a_dynamic_string(kernel: SimulatedKernel) -> None:
    kernel.tracefs.write("synthetic_events", b"ran char file[]; u8 small; int number")
    kernel.tracefs.write(
        "events/sched/sched_process_exec/trigger",
        b"hist:keys=pid:f=filename,n=pid:onmax($n).trace(ran,$f,common_flags,$n)",
    )
    kernel.tracefs.write("events/synthetic/ran/enable", b"1")
    kernel.exec(Task(7, "sh"), b"/bin/true")
    assert kernel.tracefs.read("trace").decode().splitlines()[-1].endswith(": ran: file=/bin/true small=0 number=7")
