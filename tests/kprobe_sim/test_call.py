"""What is given of a call, and what probes then see: registers at the entry and at the return."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

from kprobe_sim import Call, SimulatedKernel, Task

from .counted import count_calls

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


DEFINITION = b"p:x do_sys_openat2 dfd=%di:s32 file=+0(%si):string\nr:y do_sys_openat2 $retval:s32\n"


def traced(series: str = "6.1") -> SimulatedKernel:
    kernel = SimulatedKernel(series)
    kernel.tracefs.write("kprobe_events", DEFINITION)
    kernel.tracefs.write("events/kprobes/enable", b"1")
    return kernel


def test_many_calls_are_those_one_after_the_other() -> None:
    together, apart = traced(), traced()
    batch = [
        Call("do_sys_openat2", Task(40 + number % 3, "cat"), (number, f"/{number}"), number) for number in range(9)
    ]
    together.calls(batch)
    for call in batch:
        apart.call(call.function, task=call.task, args=call.args, returns=call.returns)
    text = together.tracefs.read("trace")
    assert text == apart.tracefs.read("trace")
    assert text.count(b": x: (do_sys_openat2+0x0/") == text.count(b": y: (") == 9
    assert sorted(together.tasks) == sorted(apart.tasks) == [1, 40, 41, 42]


def test_what_a_batch_does_meanwhile_is_done_in_its_place() -> None:
    """A generator may use the kernel between its calls."""
    kernel = traced()

    def batch() -> Iterator[Call]:
        for number in range(3):
            yield Call("do_sys_openat2", CAT, (number, "/a"))
            kernel.tracefs.write("trace_marker", b"after %d" % number)
            kernel.tracefs.write("events/kprobes/x/enable", b"%d" % (number % 2))

    kernel.calls(batch())
    shown = [line.rpartition(": ")[2] for line in kernel.tracefs.read("trace").decode().splitlines() if "-42 " in line]
    shown = [line.partition(") ")[2] for line in shown if "dfd" in line]
    assert shown == ['dfd=0 file="/a"', 'dfd=2 file="/a"']


def test_a_batch_ends_at_a_call_that_can_not_be() -> None:
    kernel = traced()
    calls = [
        Call("do_sys_openat2", CAT, (1, "/a")),
        Call("no_such_function", CAT),
        Call("do_sys_openat2", CAT, (2, "/b")),
    ]
    with pytest.raises(ValueError, match="no symbol for the function 'no_such_function'"):
        kernel.calls(calls)
    assert kernel.tracefs.read("kprobe_profile").split() == [b"x", b"1", b"0", b"y", b"1", b"0"]


@pytest.mark.parametrize("series", ["6.1", "6.12"])
def test_a_hit_costs_the_same_however_many_probes_there_are(series: str) -> None:
    """In calls of Python functions, with other probes coming and going: what is elsewhere isn't looked at."""

    def cost(others: int) -> int:
        kernel = traced(series)
        for number in range(others):
            kernel.add_function(f"other{number}")
        kernel.tracefs.write("kprobe_events", b"".join(b"p:o%d other%d\n" % (one, one) for one in range(others)))
        for number in range(others):
            kernel.tracefs.write(f"events/kprobes/o{number}/enable", b"1")

        def hit() -> None:
            kernel.call("do_sys_openat2", task=CAT, args=(-100, "/etc/passwd"))

        hit()
        kernel.tracefs.write("events/kprobes/x/enable", b"0")
        kernel.tracefs.write("events/kprobes/x/enable", b"1")
        return count_calls(hit, "call")

    few, many = cost(2), cost(200)
    assert 10 < few == many


def test_a_call_has_its_fields_in_their_order() -> None:
    """`SimulatedKernel.call` makes the value without its constructor, which takes as long as half a call."""
    source = inspect.getsource(SimulatedKernel.call)
    fields = re.search(r"fields = \(([^)]*)\)", source)
    assert fields is not None
    assert tuple(re.findall(r"\w+", fields[1])) == Call._fields
