"""A kernel of 32 bits, sim:3.13-i386: the definitions that a document of the seeds shows, and nothing that isn't known.

Sources: scenarios/replays/seeds/wind-river/01-definitions; the names of registers and the sizes are those of arch/x86
of 3.13.
"""

from __future__ import annotations

import errno
import re

import pytest

from kprobe import Tracer
from kprobe.errors import Refused
from kprobe_sim import SimulatedKernel

NAMES = ["ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "ip", "flags", "cs", "ss", "ds", "es", "fs", "gs", "orig_ax"]


@pytest.fixture
def i386() -> SimulatedKernel:
    return SimulatedKernel("3.13-i386")


def define(kernel: SimulatedKernel, line: str) -> int:
    """Write a definition; return the errno, 0 if it is taken."""
    try:
        kernel.tracefs.write("kprobe_events", line.encode() + b"\n")
    except OSError as error:
        return error.errno or -1
    return 0


def test_registers_have_the_names_of_i386(i386: SimulatedKernel) -> None:
    assert define(i386, "p:x _do_fork " + " ".join(f"{name}=%{name}" for name in NAMES)) == 0
    for name in ("r8", "r15", "eax", "rax"):
        assert define(i386, f"p:y _do_fork %{name}") == errno.EINVAL
    assert define(SimulatedKernel("6.1"), "p:x vfs_read %ds") == errno.EINVAL


def test_numbers_are_longs_of_32_bits(i386: SimulatedKernel) -> None:
    assert define(i386, "p:x 0x1c102bac0") == errno.ERANGE
    assert define(i386, "p:x _do_fork +0x80000000(%ax)") == errno.ERANGE
    assert define(i386, "p:x _do_fork +0x7fffffff(%ax)") == 0
    assert define(i386, "p:y _do_fork $stack2048") == 0  # two pages of words
    assert define(i386, "p:z _do_fork $stack2049") == errno.EINVAL


def test_fields_have_the_sizes_of_i386(i386: SimulatedKernel) -> None:
    assert define(i386, "p:doforkprobe 0xc102bac0 clone_flags=%ax child_tidptr=+8($stack)") == 0
    assert b"""
	field:unsigned long __probe_ip;	offset:8;	size:4;	signed:0;
	field:u32 clone_flags;	offset:12;	size:4;	signed:0;
	field:u32 child_tidptr;	offset:16;	size:4;	signed:0;
""" in i386.tracefs.read("events/kprobes/doforkprobe/format")


def test_what_a_hit_gives_is_not_known(i386: SimulatedKernel) -> None:
    assert define(i386, "p:x _do_fork") == 0
    with pytest.raises(OSError, match="Function not implemented"):
        i386.tracefs.write("events/kprobes/x/enable", b"1\n")
    assert i386.tracefs.read("events/kprobes/x/enable") == b"0\n"


def test_the_tracer_says_that_it_is_not_known_and_leaves_nothing(i386: SimulatedKernel) -> None:
    with pytest.raises(Refused) as refused, Tracer(i386.tracefs).trace("p:doforkprobe 0xc102bac0"):
        pass
    assert re.sub(r"kprobe_\d+_\d+_0(?:_ns\d+)?", "SESSION", str(refused.value)).splitlines() == [
        "events/SESSION/doforkprobe/enable refused: Function not implemented (ENOSYS)",
        "hint: the simulator doesn't know what this kernel does here; the probe can be defined, but not traced",
    ]
    assert i386.tracefs.read("kprobe_events") == b""
