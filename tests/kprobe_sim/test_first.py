"""The patch of 2009, sim:2009, and its revision 13, sim:2009-v13: what tracer-2009 and lwn-2009 of the seeds say."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from kprobe_sim import SimulatedKernel, Task
from kprobe_sim.builds import profile
from kprobe_sim.probes.patch_2009.arguments import read_first_arguments

ROOT = Path(__file__).parents[2]
NAMED = b"p:myprobe do_sys_open dfd=a0 filename=a1 flags=a2 mode=a3\n"
TASK = Task(1447, "cat", known=False)
HEADER = """\
# tracer: nop
#
#           TASK-PID    CPU#    TIMESTAMP  FUNCTION
#              | |       |          |         |
"""


@pytest.fixture
def kernel() -> SimulatedKernel:
    return SimulatedKernel("2009")


def work(kernel: SimulatedKernel) -> None:
    """Open a file on CPU 1: a call of do_sys_open, which returns 3."""
    kernel.call(
        "do_sys_open",
        task=TASK,
        args=(0xFFFFFF9C, 0x40413C, 0x8000, 0x1B6),
        returns=3,
        caller="sys_open+0x1b",
        cpu=1,
        at=1038282_286885_000,
        duration=30_000,
    )


def refusal(kernel: SimulatedKernel, line: str) -> int | None:
    try:
        kernel.tracefs.write("kprobe_events", line.encode() + b"\n")
    except OSError as error:
        return error.errno
    return None


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("p do_sys_open", "p:p_do_sys_open_0 do_sys_open+0"),
        ("p:x do_sys_open a0 a16", "p:x do_sys_open+0 a0=a0 a16=a16"),
        ("p:x sys_open+0x1b", "p:x sys_open+27"),
        ("p:x 0xffffffff810e5000", "p:x 0xffffffff810e5000"),
        ("p:x do_sys_open s0 s1024 sa", "p:x do_sys_open+0 s0=s0 s1024=s1024 sa=sa"),
        ("p:x do_sys_open %si reg=%ax", "p:x do_sys_open+0 %si=%si reg=%ax"),
        ("p:x do_sys_open @0xffffffff81000000", "p:x do_sys_open+0 @0xffffffff81000000=@0xffffffff81000000"),
        ("p:x do_sys_open j=@jiffies j=@jiffies-8", "p:x do_sys_open+0 j=@jiffies+0 j=@jiffies-8"),
        ("p:x do_sys_open field=+0x10(a1)", "p:x do_sys_open+0 field=+16(a1)"),
        ("p:x do_sys_open -8(+0(sa))", "p:x do_sys_open+0 -8(+0(sa))=-8(+0(sa))"),
        ("p:x do_sys_open s=+0(%si):string", "p:x do_sys_open+0 s=+0(%si)"),  # what follows a brace isn't looked at
        ("r:x do_sys_open rv ra", "r:x do_sys_open+0 rv=rv ra=ra"),
        ("r:x do_sys_open+0 $", None),
        ("r do_sys_open a=rv # a comment", "r:r_do_sys_open_0 do_sys_open+0 a=rv"),
    ],
)
def test_what_is_taken_is_shown(kernel: SimulatedKernel, line: str, shown: str | None) -> None:
    assert refusal(kernel, line) == (errno.EINVAL if shown is None else None)
    assert kernel.tracefs.read("kprobe_events").decode() == ("" if shown is None else shown + "\n")


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("-:x", errno.EINVAL),  # nothing deletes one probe
        ("p", errno.EINVAL),
        ("p: do_sys_open", errno.EINVAL),
        ("q:x do_sys_open", errno.EINVAL),
        ("p:g/x do_sys_open", errno.EINVAL),  # there are no groups
        ("p:x no_such_function", errno.EINVAL),
        ("p:x do_sys_open+1", errno.EINVAL),  # within an instruction
        ("p:x sys_open+0x1a", errno.EINVAL),
        ("p:x kretprobe_trampoline", errno.EINVAL),  # one of the __kprobes functions, in which nothing can be probed
        ("r:x do_sys_open+4", errno.EINVAL),
        ("r:x 0xffffffff810e5000", errno.EINVAL),
        ("p:x do_sys_open rv", errno.EINVAL),  # only for return probes
        ("p:x do_sys_open ra", errno.EINVAL),
        ("p:x do_sys_open a17", errno.EINVAL),
        ("p:x do_sys_open a-1", errno.EINVAL),
        ("p:x do_sys_open s1025", errno.EINVAL),
        ("p:x do_sys_open %eax", errno.EINVAL),
        ("p:x do_sys_open $arg1", errno.EINVAL),  # of later kernels
        ("p:x do_sys_open $stack0", errno.EINVAL),
        ("r:x do_sys_open $retval", errno.EINVAL),
        ("p:x do_sys_open a=%si:u32", errno.EINVAL),  # there are no types
        ("p:x do_sys_open +0", errno.EINVAL),
        ("p:x do_sys_open +0(a1", errno.EINVAL),
        ("p:x do_sys_open @", errno.EINVAL),
        ("p:x do_sys_open " + "n" * 61 + "=a0", errno.ENOSPC),  # 64 bytes
        ("p:x do_sys_open " + "a0 " * 40, errno.EINVAL),  # a line of more than 127 bytes
    ],
)
def test_what_is_refused(kernel: SimulatedKernel, line: str, number: int) -> None:
    assert refusal(kernel, line) == number
    assert kernel.tracefs.read("kprobe_events") == b""


def test_an_event_has_its_directory_and_begins_at_once(kernel: SimulatedKernel) -> None:
    tracefs = kernel.tracefs
    tracefs.write("kprobe_events", NAMED)
    assert tracefs.listdir("events") == ["kprobes"]
    assert tracefs.listdir("events/kprobes") == ["myprobe"]
    assert sorted(tracefs.listdir("events/kprobes/myprobe")) == ["enabled", "filter", "format", "id"]
    assert not tracefs.exists("events/kprobes/myprobe/enable")
    assert tracefs.read("events/kprobes/myprobe/enabled") == b"1\n"
    assert tracefs.read("events/kprobes/myprobe/id") == b"75\n"
    tracefs.write("events/kprobes/myprobe/enabled", b"0\n")
    work(kernel)
    assert tracefs.read("trace").decode() == HEADER
    assert tracefs.read("kprobe_profile").decode().split() == ["myprobe", "0", "0"]
    tracefs.write("events/kprobes/myprobe/enabled", b"1\n")
    work(kernel)
    assert tracefs.read("kprobe_profile").decode().split() == ["myprobe", "1", "0"]


@pytest.mark.parametrize("profile", ["2009", "2009-v13"])
@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("p do_sys_open", "p_do_sys_open_0"),
        ("p sys_open+0x1b", "p_sys_open_27"),
        ("r do_sys_open rv", "r_do_sys_open_0"),
        ("p 0xffffffff810e5000", "p_0xffffffff810e5000"),
    ],
)
def test_a_name_is_made_of_the_place(profile: str, line: str, name: str) -> None:
    kernel = SimulatedKernel(profile)
    kernel.tracefs.write("kprobe_events", f"{line}\n".encode())
    assert kernel.tracefs.read("kprobe_events").decode().split()[0] == f"{line[0]}:{name}"
    assert kernel.tracefs.listdir("events/kprobes") == [name]
    assert sorted(kernel.tracefs.listdir(f"events/kprobes/{name}")) == ["enabled", "filter", "format", "id"]


def test_an_event_with_a_made_name_is_traced(kernel: SimulatedKernel) -> None:
    kernel.tracefs.write("kprobe_events", b"p do_sys_open\n")
    work(kernel)
    assert kernel.tracefs.read("trace").decode() == (
        HEADER + "           <...>-1447  [001] 1038282.286885: do_sys_open+0x0/0xd6:\n"
    )


def test_a_second_probe_of_a_name_replaces_the_first(kernel: SimulatedKernel) -> None:
    kernel.tracefs.write("kprobe_events", NAMED + b"p:myprobe sys_open\n")
    assert kernel.tracefs.read("kprobe_events") == b"p:myprobe sys_open+0\n"
    with pytest.raises(OSError, match="Invalid argument"):
        kernel.tracefs.write("kprobe_events", b"p:myprobe nowhere\n")
    assert kernel.tracefs.read("kprobe_events") == b"p:myprobe sys_open+0\n"


def test_a_filter_names_the_arguments(kernel: SimulatedKernel) -> None:
    kernel.tracefs.write("kprobe_events", NAMED)
    kernel.tracefs.write("events/kprobes/myprobe/filter", b"dfd == 3\n")
    work(kernel)
    assert kernel.tracefs.read("trace").decode() == HEADER
    kernel.tracefs.write("events/kprobes/myprobe/filter", b"flags == 0x8000\n")
    work(kernel)
    assert kernel.tracefs.read("trace").decode() == HEADER + (
        "           <...>-1447  [001] 1038282.286885: do_sys_open+0x0/0xd6: dfd=ffffff9c filename=40413c flags=8000 "
        "mode=1b6\n"
    )


def test_opening_to_truncate_clears_what_is_enabled_and_leaves_the_trace(kernel: SimulatedKernel) -> None:
    tracefs = kernel.tracefs
    tracefs.write("kprobe_events", b"r:myretprobe do_sys_open rv ra\n")
    work(kernel)
    tracefs.write("kprobe_events", b"\n", truncate=True)
    assert (tracefs.read("kprobe_events"), tracefs.read("kprobe_profile")) == (b"", b"")
    assert tracefs.listdir("events") == []
    work(kernel)
    assert tracefs.read("trace").decode() == HEADER + (
        "           <...>-1447  [001] 1038282.286915: sys_open+0x1b/0x1d <- do_sys_open: rv=3 ra=ffffffff81367a3a\n"
    )


def test_memory_and_symbols_that_are_not_there_read_0(kernel: SimulatedKernel) -> None:
    kernel.tracefs.write("kprobe_events", b"p:x do_sys_open a=@nosuch+4 b=@0xffffffffff000000 c=+0(%r12) d=+8(a1)\n")
    kernel.call("do_sys_open", task=TASK, args=(0, 0x1000), memory={0x1008: (0x1234).to_bytes(8, "little")}, at=10**9)
    assert kernel.tracefs.read("trace").decode().splitlines()[-1] == (
        "           <...>-1447  [000]     1.000000: do_sys_open+0x0/0xd6: a=0 b=0 c=0 d=1234"
    )


def test_memory_of_the_kernel(kernel: SimulatedKernel) -> None:
    line = b"p:x do_sys_open a=@0xffffffff81300000 b=@do_sys_open+8 c=-16(%si) d=+8(+0(a1)) e=%si\n"
    kernel.tracefs.write("kprobe_events", line)
    memory = {
        0xFFFFFFFF81300000: 0x1122334455667788,
        0xFFFFFFFF810E5008: 0xCAFE,
        0xFF0: 0xBEEF,
        0x1000: 0x2000,
        0x2008: 0xF00D,
    }
    words = {address: value.to_bytes(8, "little") for address, value in memory.items()}
    kernel.call("do_sys_open", task=TASK, args=(0, 0x1000), memory=words, at=10**9)
    assert kernel.tracefs.read("trace").decode().splitlines()[-1] == (
        "           <...>-1447  [000]     1.000000: do_sys_open+0x0/0xd6: "
        "a=1122334455667788 b=cafe c=beef d=f00d e=1000"
    )


def test_revision_13_has_no_names() -> None:
    kernel = SimulatedKernel("2009-v13")
    assert refusal(kernel, NAMED.decode()) == errno.EINVAL
    kernel.tracefs.write("kprobe_events", b"p:myprobe do_sys_open a0 a1\nr:myretprobe do_sys_open rv ra\n")
    assert kernel.tracefs.read("kprobe_events") == b"p:myprobe do_sys_open+0 a0 a1\nr:myretprobe do_sys_open+0 rv ra\n"
    work(kernel)
    assert kernel.tracefs.read("trace").decode() == HEADER + (
        "           <...>-1447  [001] 1038282.286885: do_sys_open+0x0/0xd6: 0xffffff9c 0x40413c\n"
        "           <...>-1447  [001] 1038282.286915: sys_open+0x1b/0x1d <- do_sys_open: 0x3 0xffffffff81367a3a\n"
    )
    assert kernel.tracefs.read("events/kprobes/myprobe/format").decode().splitlines()[-4:] == [
        "\talias: a0;\toriginal: arg0;",
        "\talias: a1;\toriginal: arg1;",
        "",
        'print fmt: "%lx: 0x%lx 0x%lx", ip, arg0, arg1',
    ]


def test_the_profiles_are_what_the_tool_writes(loaded: Callable[[Path], ModuleType], tmp_path: Path) -> None:
    loaded(ROOT / "tools" / "old_kernels" / "document_profiles.py").write(tmp_path)
    for release in ("2.6.31-2009-v13", "2.6.32-2009"):
        for path in (tmp_path / release).iterdir():
            assert ((profile.DOCUMENTS / release) / path.name).read_bytes() == path.read_bytes()


def test_more_than_128_arguments_are_dropped() -> None:
    words = ["a0"] * 130
    assert len(read_first_arguments(words, is_return=False, named=True)) == 128


def test_values_of_the_stack(kernel: SimulatedKernel) -> None:
    kernel.tracefs.write("kprobe_events", b"p:x do_sys_open s0 s1 at=+0(sa)\n")
    kernel.call("do_sys_open", task=TASK, args=(0, 0, 0, 0, 0, 0, 0x77), caller="sys_open+0x1b", at=10**9)
    assert kernel.tracefs.read("trace").decode().splitlines()[-1] == (
        "           <...>-1447  [000]     1.000000: do_sys_open+0x0/0xd6: s0=ffffffff810e50f1 s1=77 at=ffffffff810e50f1"
    )


def test_arguments_inside_a_function_are_registers(kernel: SimulatedKernel) -> None:
    kernel.tracefs.write("kprobe_events", b"p:x sys_open+0x1b a0 a1\n")
    kernel.call("sys_open", task=TASK, registers={"di": 5, "si": 6}, offset=0x1B, at=10**9)
    assert kernel.tracefs.read("trace").decode().splitlines()[-1] == (
        "           <...>-1447  [000]     1.000000: sys_open+0x1b/0x1d: a0=5 a1=6"
    )


@pytest.mark.parametrize("profile", ["2009", "2009-v13"])
@pytest.mark.parametrize(
    ("place", "shown"),
    [("do_sys_open-4", "do_sys_open-4"), ("do_sys_open-0x10", "do_sys_open-16"), ("do_sys_open+4", "do_sys_open+4")],
)
def test_an_offset_of_either_sign_is_taken(profile: str, place: str, shown: str) -> None:
    kernel = SimulatedKernel(profile)
    assert refusal(kernel, f"p:x {place}") is None
    assert kernel.tracefs.read("kprobe_events").decode() == f"p:x {shown}\n"


def test_what_follows_the_letter_is_no_name() -> None:
    kernel = SimulatedKernel("2009")
    assert refusal(kernel, "r100:x do_sys_open") is None
    assert kernel.tracefs.read("kprobe_events") == b"r:r_do_sys_open_0 do_sys_open+0\n"


def test_a_place_before_a_symbol(kernel: SimulatedKernel) -> None:
    assert refusal(kernel, "p:x sys_openat-3") == errno.EINVAL  # within sys_open, and no instruction that is known
    assert refusal(kernel, "p:x sys_open-0xd6") is None
    assert kernel.tracefs.read("kprobe_events") == b"p:x sys_open-214\n"
    work(kernel)
    assert kernel.tracefs.read("trace").decode().splitlines()[-1].endswith(": do_sys_open+0x0/0xd6:")
