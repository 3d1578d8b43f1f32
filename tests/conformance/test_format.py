"""The format file of an event, which is what programs read to understand the records."""

from __future__ import annotations

from typing import Any

import pytest

from .builds import AUTO, BTF, BY_MODULE, SYMSTR
from .text import define

COMMON = (
    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
    "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
    "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
    "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n"
    "\n"
)
ENTRY = "\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;\n"
RETURN = (
    "\tfield:unsigned long __probe_func;\toffset:8;\tsize:8;\tsigned:0;\n"
    "\tfield:unsigned long __probe_ret_ip;\toffset:16;\tsize:8;\tsigned:0;\n"
)


def field(declaration: str, offset: int, size: int, signed: int) -> str:
    return f"\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n"


def check(tracefs: Any, name: str, fields: str, print_format: str) -> None:
    number = int(tracefs.read(f"events/kprobes/{name}/id"))
    text = tracefs.read(f"events/kprobes/{name}/format").decode()
    assert text == f"name: {name}\nID: {number}\nformat:\n{COMMON}{fields}\nprint fmt: {print_format}\n"


def test_no_arguments(tracefs: Any) -> None:
    define(tracefs, "p:a do_sys_openat2", "r:b do_sys_openat2")
    check(tracefs, "a", ENTRY, '"(%lx)", REC->__probe_ip')
    check(tracefs, "b", RETURN, '"(%lx <- %lx)", REC->__probe_func, REC->__probe_ret_ip')


@pytest.mark.parametrize(
    ("type_", "declaration", "size", "signed", "printed"),
    [
        ("u8", "u8", 1, 0, "%u"),
        ("u16", "u16", 2, 0, "%u"),
        ("u32", "u32", 4, 0, "%u"),
        ("u64", "u64", 8, 0, "%Lu"),
        ("s8", "s8", 1, 1, "%d"),
        ("s16", "s16", 2, 1, "%d"),
        ("s32", "s32", 4, 1, "%d"),
        ("s64", "s64", 8, 1, "%Ld"),
        ("x8", "u8", 1, 0, "0x%x"),
        ("x16", "u16", 2, 0, "0x%x"),
        ("x32", "u32", 4, 0, "0x%x"),
        ("x64", "u64", 8, 0, "0x%Lx"),
        ("symbol", "u64", 8, 0, "%pS"),
        ("b4@4/8", "u8", 1, 0, "%u"),
        ("b3@2/16", "u16", 2, 0, "%u"),
        ("b3@2/32", "u32", 4, 0, "%u"),
        ("b3@2/64", "u64", 8, 0, "%Lu"),
    ],
)
def test_a_type(tracefs: Any, type_: str, declaration: str, size: int, signed: int, printed: str) -> None:
    define(tracefs, f"p:a do_sys_openat2 v=%di:{type_}")
    check(
        tracefs,
        "a",
        ENTRY + field(f"{declaration} v", 16, size, signed),
        f'"(%lx) v={printed}", REC->__probe_ip, REC->v',
    )


def test_untyped(tracefs: Any) -> None:
    define(tracefs, "p:a do_sys_openat2 %di")
    check(tracefs, "a", ENTRY + field("u64 arg1", 16, 8, 0), '"(%lx) arg1=0x%Lx", REC->__probe_ip, REC->arg1')


def test_strings(tracefs: Any, choose: Any) -> None:
    last = choose({"": "$comm", SYMSTR: "%di:symstr"})
    define(tracefs, f'p:a do_sys_openat2 a=+0(%si):string b=+0(%si):ustring c=$comm d=\\"q" e={last}')
    fields = "".join(
        field(f"__data_loc char[] {name}", 16 + 4 * index, 4, 1) for index, name in enumerate(("a", "b", "c", "d", "e"))
    )
    check(
        tracefs,
        "a",
        ENTRY + fields,
        '"(%lx) a=\\"%s\\" b=\\"%s\\" c=\\"%s\\" d=\\"%s\\" e=\\"%s\\"", REC->__probe_ip, '
        "__get_str(a), __get_str(b), __get_str(c), __get_str(d), __get_str(e)",
    )


def test_arrays(tracefs: Any, choose: Any) -> None:
    """Their length was part of the declaration up to 5.18."""
    three, two = choose({"": ("3", "2"), AUTO: ("", "")})
    define(tracefs, "p:a do_sys_openat2 a=+0(%si):u8[3] b=+0(%si):x16[2] c=+0(%si):string[2] d=+0(%si):symbol[2]")
    fields = (
        field(f"u8 a[{three}]", 16, 3, 0)
        + field(f"u16 b[{two}]", 19, 4, 0)
        + field("__data_loc char[][2] c", 23, 8, 1)
        + field(f"u64 d[{two}]", 31, 16, 0)
    )
    check(
        tracefs,
        "a",
        ENTRY + fields,
        '"(%lx) a={%u,%u,%u} b={0x%x,0x%x} c={\\"%s\\",\\"%s\\"} d={%pS,%pS}", REC->__probe_ip, '
        "REC->a[0], REC->a[1], REC->a[2], REC->b[0], REC->b[1], __get_str(c[0]), __get_str(c[1]), "
        "REC->d[0], REC->d[1]",
    )


def test_fields_are_packed(tracefs: Any) -> None:
    define(tracefs, "p:a do_sys_openat2 a=%di:u8 b=%di:u64 c=%di:u16", "r:b do_sys_openat2 a=$retval:u8 b=$retval:s32")
    fields = field("u8 a", 16, 1, 0) + field("u64 b", 17, 8, 0) + field("u16 c", 25, 2, 0)
    check(tracefs, "a", ENTRY + fields, '"(%lx) a=%u b=%Lu c=%u", REC->__probe_ip, REC->a, REC->b, REC->c')
    fields = field("u8 a", 24, 1, 0) + field("s32 b", 25, 4, 1)
    check(
        tracefs,
        "b",
        RETURN + fields,
        '"(%lx <- %lx) a=%u b=%d", REC->__probe_func, REC->__probe_ret_ip, REC->a, REC->b',
    )


def test_the_first_probe_makes_the_format(tracefs: Any) -> None:
    define(tracefs, "p:a do_sys_openat2 v=%di:x64", "p:a vfs_open v=%si")
    check(tracefs, "a", ENTRY + field("u64 v", 16, 8, 0), '"(%lx) v=0x%Lx", REC->__probe_ip, REC->v')


def test_ids(tracefs: Any, choose: Any) -> None:
    """Each event has its own; the static ones come first."""
    define(tracefs, "p:a do_sys_openat2", "p:b do_sys_openat2", "p:a vfs_open")
    first = int(tracefs.read("events/kprobes/a/id"))
    second = int(tracefs.read("events/kprobes/b/id"))
    assert second == first + 1
    assert first > int(tracefs.read("events/sched/sched_switch/id"))
    define(tracefs, "-:b", "p:c do_sys_openat2")
    assert int(tracefs.read("events/kprobes/c/id")) == choose({"": second + 1, "<argname>": second})
    # a freed id isn't used again before the wrap; since 6.3 at once


def test_a_static_event(tracefs: Any, choose: Any) -> None:
    signed = choose({"": 1, BTF: 0})  # char: the kernel is built with -funsigned-char since 6.2
    number = int(tracefs.read("events/sched/sched_process_fork/id"))
    assert tracefs.read("events/sched/sched_process_fork/format").decode() == (
        f"name: sched_process_fork\nID: {number}\nformat:\n{COMMON}"
        + choose(
            {
                "": field("char parent_comm[16]", 8, 16, signed)
                + field("pid_t parent_pid", 24, 4, 1)
                + field("char child_comm[16]", 28, 16, signed)
                + field("pid_t child_pid", 44, 4, 1)
                + '\nprint fmt: "comm=%s pid=%d child_comm=%s child_pid=%d", REC->parent_comm, REC->parent_pid, '
                "REC->child_comm, REC->child_pid\n",
                BY_MODULE: field("__data_loc char[] parent_comm", 8, 4, 0)
                + field("pid_t parent_pid", 12, 4, 1)
                + field("__data_loc char[] child_comm", 16, 4, 0)
                + field("pid_t child_pid", 20, 4, 1)
                + '\nprint fmt: "comm=%s pid=%d child_comm=%s child_pid=%d", __get_str(parent_comm), '
                "REC->parent_pid, __get_str(child_comm), REC->child_pid\n",
            }
        )
    )
