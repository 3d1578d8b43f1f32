"""What is given of a call, and what probes then see: registers at the entry and at the return."""

from __future__ import annotations

from typing import Any

from kprobe_sim import SimulatedKernel, Task
from kprobe_sim.hits.call import Call

CAT = Task(42, "cat")


def seen(kernel: SimulatedKernel, definition: str, **call: Any) -> str:
    """Return what a probe fetches at a call."""
    kernel.tracefs.write("kprobe_events", definition.encode())
    kernel.tracefs.write("events/kprobes/x/enable", b"1")
    kernel.call("do_sys_openat2", task=CAT, **call)
    return kernel.tracefs.read("trace").decode().splitlines()[-1].partition(") ")[2]


def test_a_return_clobbers_what_a_function_may_use() -> None:
    """Numbers of its own in each register: none is an argument, and none is an address."""
    names = ("di", "si", "dx", "cx", "r8", "r9", "r10", "r11")
    words = " ".join(f"%{name}:x64 +0(%{name}):string +u0(%{name}):string" for name in names)
    kernel = SimulatedKernel("6.1")
    text = seen(kernel, f"r:x do_sys_openat2 {words}", args=(-100, "/etc/passwd", 1, 2, 3, 4), returns=3)
    fetched = [word.partition("=")[2] for word in text.split()]
    assert fetched[1::3] == fetched[2::3] == ["(fault)"] * 8
    assert fetched[::3] == [f"0xdead00000000{number}{number}{number}{number}" for number in range(1, 9)]


def test_a_return_keeps_what_belongs_to_the_caller() -> None:
    kept = {"bx": 1, "bp": 2, "r12": 3, "r13": 4, "r14": 5, "r15": 6}
    words = " ".join(f"%{name}:u8" for name in kept)
    assert (
        seen(SimulatedKernel("6.1"), f"r:x do_sys_openat2 {words}", registers=kept)
        == "arg1=1 arg2=2 arg3=3 arg4=4 arg5=5 arg6=6"
    )


def test_registers_that_a_call_states_are_those_at_its_return_too() -> None:
    kernel = SimulatedKernel("6.1")
    stated = {"si": 0x1000, "ax": 7}
    probe = "r:x do_sys_openat2 %si +0(%si):string %di:x64 %ax"
    assert (
        seen(kernel, probe, args=(-100,), returns=3, registers=stated, memory={0x1000: b"mine\0"})
        == 'arg1=0x1000 arg2="mine" arg3=0xdead000000001111 arg4=0x3'
    )


def test_both_may_be_told_apart() -> None:
    kernel = SimulatedKernel("6.1")
    kernel.tracefs.write("kprobe_events", b"p:a do_sys_openat2 %si %dx\nr:b do_sys_openat2 %si:x64 %dx:x64")
    kernel.tracefs.write("events/kprobes/enable", b"1")
    kernel.perform(Call("do_sys_openat2", CAT, registers={"si": 1, "dx": 2}, returned={"si": 5}))
    fetched = [line.partition(") ")[2] for line in kernel.tracefs.read("trace").decode().splitlines()[-2:]]
    assert fetched == ["arg1=0x1 arg2=0x2", "arg1=0x5 arg2=0xdead000000003333"]


def test_arguments_of_a_return_are_those_of_the_entry() -> None:
    probe = "r:x do_sys_openat2 at=$arg2:x64 file=+0($arg2):string dfd=$arg1:s32 si=%si:x64"
    text = seen(SimulatedKernel("6.12"), probe, args=(-100, "/etc/passwd"), returns=3)
    assert text == 'at=0x7f0000000000 file="/etc/passwd" dfd=-100 si=0xdead000000002222'


def test_so_are_those_on_the_stack() -> None:
    kernel = SimulatedKernel("6.12")
    kernel.tracefs.write("kprobe_events", b"r:x mon_event_read b=$arg2:u8 f=$arg6:u8 g=$arg7:u8 s0=$stack0")
    kernel.tracefs.write("events/kprobes/x/enable", b"1")
    kernel.call("mon_event_read", task=CAT, args=(1, 2, 3, 4, 5, 6, 7))
    assert kernel.tracefs.read("trace").endswith(b") b=2 f=6 g=7 s0=0x7\n")


def test_a_new_event_calls_tracefs_create_dir() -> None:
    """A probe there is hit by each definition while it is enabled; the function tracer sees it as well."""
    kernel = SimulatedKernel("6.1")
    kernel.tracefs.write("kprobe_events", b"p:dir tracefs_create_dir name=+0(%di):string")
    kernel.tracefs.write("events/kprobes/dir/enable", b"1")
    kernel.tracefs.write("kprobe_events", b"p:one do_sys_openat2\nr:grp/two do_sys_openat2")
    kernel.tracefs.write("events/kprobes/dir/enable", b"0")
    kernel.tracefs.write("kprobe_events", b"p:three do_sys_openat2")
    kernel.tracefs.write("current_tracer", b"nop")
    lines = kernel.tracefs.read("trace").decode().splitlines()[-2:]
    assert [line.rpartition(" ")[2] for line in lines] == ['name="one"', 'name="two"']
    kernel.tracefs.write("current_tracer", b"function")
    kernel.tracefs.write("kprobe_events", b"p:four do_sys_openat2")
    assert kernel.tracefs.read("trace").endswith(b" tracefs_create_dir\n")
