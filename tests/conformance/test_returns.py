"""What return probes see: the registers after the return, and arguments that were kept at the entry."""

from __future__ import annotations

from typing import Any

import pytest

from .builds import DENTRY, EPROBES, Build
from .text import define, refused, show_only, traced

# what a function keeps for its caller
KEPT = " ".join(f"%{name}:x64" for name in ("bx", "bp", "r12", "r13", "r14", "r15"))


@pytest.mark.parametrize("fetch", ["+0(%si):ustring", "+u0(%si):string", "+0(%di):ustring", "+0(+8(%si)):ustring"])
def test_arguments_are_gone_from_their_registers(tracefs: Any, workload: Any, build: Build, fetch: str) -> None:
    define(tracefs, f"r:g/r do_sys_openat2 file={fetch} fd=$retval:s32")
    show_only(tracefs, "workload", "g/r")
    workload.open("/etc/hostname")
    workload.open("/nosuch")
    assert traced(tracefs) == [
        f"r: ({build.openat} <- do_sys_openat2) file=(fault) fd=3",
        f"r: ({build.openat} <- do_sys_openat2) file=(fault) fd=-2",
    ]


def test_what_was_the_path_is_no_longer(tracefs: Any, workload: Any, build: Build) -> None:
    """What the function left in its register is no address at all, or on some builds one of the kernel's code."""
    define(tracefs, "r:g/r do_sys_openat2 file=+0(%si):string")
    show_only(tracefs, "workload", "g/r")
    workload.open("/etc/hostname")
    (line,) = traced(tracefs)
    place, _, file = line.partition(" file=")
    assert place == f"r: ({build.openat} <- do_sys_openat2)"
    assert file == "(fault)" or (file[0] == file[-1] == '"' and file != '"/etc/hostname"')


def test_a_filter_sees_what_is_there_at_the_return(tracefs: Any, workload: Any) -> None:
    define(tracefs, "p:g/p do_sys_openat2 path=%si", "r:g/r do_sys_openat2 path=%si")
    for event in ("p", "r"):
        tracefs.write(f"events/g/{event}/filter", b'comm == "workload" && path == 0x10000000')
        tracefs.write(f"events/g/{event}/enable", b"1")
    workload.open("/etc/hostname")
    assert [body.partition(":")[0] for body in traced(tracefs)] == ["p"]


def test_a_function_keeps_the_registers_of_its_caller(tracefs: Any, workload: Any) -> None:
    define(tracefs, f"p:g/p do_sys_openat2 {KEPT}", f"r:g/r do_sys_openat2 {KEPT}")
    show_only(tracefs, "workload", "g/p", "g/r")
    workload.open("/etc/hostname")
    entered, returned = (body.partition(") ")[2] for body in traced(tracefs))
    assert returned == entered


def test_the_return_address_is_off_the_stack(tracefs: Any, workload: Any) -> None:
    define(tracefs, "p:g/p do_sys_openat2 sp=%sp:u64", "r:g/r do_sys_openat2 sp=%sp:u64 stack=$stack:u64 ax=%ax:s32")
    show_only(tracefs, "workload", "g/p", "g/r")
    workload.open("/etc/hostname")
    entered, returned = (body.partition(") sp=")[2].split() for body in traced(tracefs))
    pointer = int(entered[0]) + 8
    assert returned == [str(pointer), f"stack={pointer}", "ax=3"]


def test_where_a_return_goes_to(tracefs: Any, workload: Any, build: Build, choose: Any) -> None:
    define(tracefs, "r:g/r do_sys_openat2 ip=%ip:symbol")
    show_only(tracefs, "workload", "g/r")
    workload.open("/etc/hostname")
    there = choose({"": build.trampoline, EPROBES: build.openat})
    assert traced(tracefs) == [f"r: ({build.openat} <- do_sys_openat2) ip={there}"]


def test_arguments_are_kept_from_the_entry(tracefs: Any, workload: Any, build: Build, choose: Any) -> None:
    define_it = "r:g/r do_sys_openat2 dfd=$arg1:s32 at=$arg2:x64 file=+0($arg2):ustring fd=$retval:s32"
    if not choose({"": False, DENTRY: True}):
        assert refused(tracefs, "kprobe_events", define_it) == 22
        return
    define(tracefs, define_it)
    show_only(tracefs, "workload", "g/r")
    workload.open("/etc/hostname")
    assert traced(tracefs) == [
        f'r: ({build.openat} <- do_sys_openat2) dfd=-100 at=0x10000000 file="/etc/hostname" fd=3'
    ]
