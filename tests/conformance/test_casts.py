"""What fetch arguments of 7.3 read at a hit: the task that runs, values taken for structs, per-CPU variables.

Kernels before it refuse these definitions.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable
from typing import Any

import pytest

from .text import define, show_only, traced

MEMORY = 0x10000000  # where the workload's data lies
HOW = struct.pack("<QQQ", 0x1122334455667788, 0o640, 5)  # struct open_how: flags, mode, resolve
KNOWS = "$current"  # in the README of a kernel that has all of it


def fetch(tracefs: Any, workload: Any, choose: Callable[[Any], Any], expressions: str) -> str | None:
    """Return what an event of these arguments prints of fadvise(-2, MEMORY, -3); None on a kernel that refuses it."""
    if not choose({"": False, KNOWS: True}):
        with pytest.raises(OSError) as refused:
            define(tracefs, f"p:e ksys_fadvise64_64 {expressions}")
        assert refused.value.errno in (errno.EINVAL, errno.ENOENT)  # ENOENT: taken for a parameter's name
        return None
    define(tracefs, f"p:e ksys_fadvise64_64 {expressions}")
    show_only(tracefs, "workload", "kprobes/e")
    workload.fadvise(-2, MEMORY, -3, data=HOW)
    (body,) = traced(tracefs)
    return str(body.partition(") ")[2])


def test_the_task_that_runs(tracefs: Any, workload: Any, choose: Any) -> None:
    printed = fetch(tracefs, workload, choose, "$current->pid t=$current->tgid c=$current->comm:string")
    assert printed in (None, f'arg1={workload.pid} t={workload.pid} c="workload"')


def test_characters_of_the_task(tracefs: Any, workload: Any, choose: Any) -> None:
    printed = fetch(tracefs, workload, choose, "a=$current->comm:char[4] b=$current->comm c=$current->comm:x16")
    assert printed in (None, "a={'w','o','r','k'} b=0x64616f6c6b726f77 c=0x6f77")


def test_the_name_it_has_now(tracefs: Any, workload: Any, choose: Any) -> None:
    if fetch(tracefs, workload, choose, "$current->comm:string g=$current->group_leader->comm:string") is None:
        return
    workload.rename("renamed")
    show_only(tracefs, "renamed", "kprobes/e")
    workload.fadvise(-2, MEMORY, -3, data=HOW)
    workload.rename("workload")
    assert traced(tracefs)[-1].partition(") ")[2] == 'arg1="renamed" g="renamed"'


def test_its_parent_is_process_1(tracefs: Any, workload: Any, choose: Any) -> None:
    printed = fetch(tracefs, workload, choose, "$current->real_parent->pid (task_struct)$current->prio")
    assert printed in (None, "arg1=1 arg2=120")


def test_its_address_by_two_ways(tracefs: Any, workload: Any, choose: Any) -> None:
    printed = fetch(tracefs, workload, choose, "a=$current b=this_cpu_read(@current_task)")
    if printed is not None:
        one, other = printed.split()
        assert one.removeprefix("a=") == other.removeprefix("b=")
        assert one.startswith("a=0xffff")


def test_a_value_taken_for_a_pointer(tracefs: Any, workload: Any, choose: Any) -> None:
    expressions = "f=(open_how)%si->flags m=(open_how)$arg2->mode r=(open_how)(%si)->resolve:u8 n=(open_how)\\0->flags"
    printed = fetch(tracefs, workload, choose, expressions)
    assert printed is None or printed.rpartition(" ")[0] == "f=1234605616436508552 m=416 r=5"


def test_a_field_before_it(tracefs: Any, workload: Any, choose: Any) -> None:
    """(STRUCT,FIELD)X: X points to that field of the struct."""
    printed = fetch(tracefs, workload, choose, "a=(open_how,mode)%si->resolve b=(open_how,resolve)%si->resolve:x32")
    assert printed in (None, f"a=416 b=0x{0x55667788:x}")


def test_what_a_pointer_points_to(tracefs: Any, workload: Any, choose: Any) -> None:
    printed = fetch(
        tracefs, workload, choose, "a=(task_struct)this_cpu_read(@current_task)->pid b=+0((open_how)%si->mode)"
    )
    assert printed is None or printed.startswith(f"a={workload.pid} b=")


def test_variables_of_the_cpu(tracefs: Any, workload: Any, choose: Any) -> None:
    expressions = "n=this_cpu_read(@cpu_number):u32 p=(rq)this_cpu_ptr(@runqueues)->curr->pid"
    printed = fetch(tracefs, workload, choose, expressions)
    assert printed in (None, f"n=0 p={workload.pid}")


def test_addresses_of_the_cpu(tracefs: Any, workload: Any, choose: Any) -> None:
    printed = fetch(tracefs, workload, choose, "o=this_cpu_read(@this_cpu_off) a=this_cpu_ptr(%si) b=this_cpu_ptr(\\0)")
    if printed is not None:
        offset, moved, base = (int(word.partition("=")[2], 16) for word in printed.split())
        assert offset == base
        assert moved == (offset + MEMORY) % 2**64


def test_the_task_at_a_return(tracefs: Any, workload: Any, choose: Any) -> None:
    if not choose({"": False, KNOWS: True}):
        with pytest.raises(OSError) as refused:
            define(tracefs, "r:e do_sys_openat2 $current->pid")
        assert refused.value.errno == errno.EINVAL
        return
    define(tracefs, "r:e do_sys_openat2 $current->pid m=(open_how)how->flags:x32")
    show_only(tracefs, "workload", "kprobes/e")
    workload.open("/etc/hostname")
    (body,) = traced(tracefs)
    assert body.partition(") ")[2] == f"arg1={workload.pid} m=0x8000"
