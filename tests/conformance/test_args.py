"""`kprobe args` everywhere: what it writes is taken, and gives what functions are called with and return."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kprobe.cli import main

PLACE = re.compile(r"\+[1-9][0-9]*\(")  # of a member, which each build has elsewhere
ENTRY = "p:do_sys_openat2 do_sys_openat2 dfd=$arg1:s32 filename=+0($arg2):ustring how=$arg3:x64"


def args(tracefs: Any, capfd: Any, function: str, status: int = 0) -> tuple[list[str], str]:
    capfd.readouterr()
    assert main(["args", function], tracefs=tracefs) == status
    out, err = capfd.readouterr()
    assert tracefs.read("kprobe_events") == b""
    return out.splitlines(), err


@pytest.mark.parametrize(
    ("function", "lines"),
    [
        (
            "vfs_read",
            [
                "p:vfs_read vfs_read file=$arg1:x64 path=+0(+N(+N($arg1))):string buf=$arg2:x64 count=$arg3:u64 "
                "pos=$arg4:x64",
                "r:vfs_read_return vfs_read ret=$retval:s64",
            ],
        ),
        ("schedule", ["p:schedule schedule", "r:schedule_return schedule"]),
        (
            "kernel_read",
            [
                "p:kernel_read kernel_read file=$arg1:x64 path=+0(+N(+N($arg1))):string buf=$arg2:x64 "
                "count=$arg3:u64 pos=$arg4:x64",
                "r:kernel_read_return kernel_read ret=$retval:s64",
            ],
        ),
        (
            "filp_open",
            [
                "p:filp_open filp_open filename=+0($arg1):string flags=$arg2:s32 mode=$arg3:u16",
                "r:filp_open_return filp_open ret=$retval:x64",
            ],
        ),
        (
            "vfs_open",
            [
                "p:vfs_open vfs_open path=$arg1:x64 name=+0(+N(+N($arg1))):string file=$arg2:x64 "
                "file_path=+0(+N(+N($arg2))):string",
                "r:vfs_open_return vfs_open ret=$retval:s32",
            ],
        ),
        (
            "wake_up_new_task",
            [
                "p:wake_up_new_task wake_up_new_task p=$arg1:x64 task=+N($arg1):string tid=+N($arg1):s32",
                "r:wake_up_new_task_return wake_up_new_task",
            ],
        ),
    ],
)
def test_definitions(tracefs: Any, capfd: Any, function: str, lines: list[str]) -> None:
    found, said = args(tracefs, capfd, function)
    assert ([PLACE.sub("+N(", line) for line in found], said) == (lines, "")


def test_they_give_what_happens(tracefs: Any, tracer: Any, capfd: Any, workload: Any) -> None:
    (entry, leaving), _ = args(tracefs, capfd, "do_sys_openat2")
    assert entry == ENTRY
    with tracer.trace(entry, filter='comm == "workload" && filename ~ "*hostname"') as trace:
        workload.open("/etc/hostname")
        trace.stop()
        (event,) = trace
    assert (event.name, event.fields["filename"]) == ("do_sys_openat2", "/etc/hostname")
    with tracer.trace(leaving, filter='comm == "workload" && ret < 0') as trace:
        workload.open("/nowhere")
        trace.stop()
        (event,) = trace
    assert (event.name, event.fields) == ("do_sys_openat2_return", {"ret": -2})


def test_a_wrapper_of_a_system_call(tracefs: Any, capfd: Any) -> None:
    lines, said = args(tracefs, capfd, "__x64_sys_openat")
    assert lines[0] == "p:__x64_sys_openat __x64_sys_openat regs=$arg1:x64"
    assert said == (
        "NOTE: the arguments of the system call are in what the first points to: "
        "+112($arg1) +104($arg1) +96($arg1) +56($arg1) +72($arg1) +64($arg1)\n"
    )


def test_what_the_kernel_refuses(tracefs: Any, capfd: Any) -> None:
    lines, said = args(tracefs, capfd, "do_int3", status=1)
    assert lines == []
    assert said.startswith(
        "ERROR: kprobe_events refused 'p:do_int3 do_int3 regs=$arg1:x64': Invalid argument (EINVAL)\n"
    )
