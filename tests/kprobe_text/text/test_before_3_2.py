"""Text of kernels before 3.2, which has no flags: written as the source of 2.6.33, 2.6.35, 2.6.36 and 3.0 prints it."""

from __future__ import annotations

import pytest

from kprobe_text.text import Event, parse

COLUMNS = "#           TASK-PID    CPU#    TIMESTAMP  FUNCTION\n#              | |       |          |         |\n"
HEADER = f"# tracer: nop\n#\n{COLUMNS}"
COMMON = (
    "name: {name}\nID: 641\nformat:\n"
    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
    "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
    "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
    "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n"
    "\tfield:int {third};\toffset:8;\tsize:4;\tsigned:1;\n\n"
    "\tfield:unsigned long __probe_ip;\toffset:16;\tsize:8;\tsigned:0;\n"
)
UNTYPED = (
    COMMON.format(name="my", third="common_lock_depth")
    + "\tfield:int __probe_nargs;\toffset:24;\tsize:4;\tsigned:1;\n"
    + "\tfield:unsigned long dfd;\toffset:32;\tsize:8;\tsigned:0;\n"
    + "\tfield:unsigned long flags;\toffset:40;\tsize:8;\tsigned:0;\n\n"
    + 'print fmt: "(%lx) dfd=%lx flags=%lx", REC->__probe_ip, REC->dfd, REC->flags\n'
)
TYPED = (
    COMMON.format(name="my", third="common_lock_depth")
    + "\tfield:s32 dfd;\toffset:24;\tsize:4;\tsigned:1;\n"
    + "\tfield:u64 flags;\toffset:28;\tsize:8;\tsigned:0;\n\n"
    + 'print fmt: "(%lx) dfd=%ld flags=%llx", REC->__probe_ip, REC->dfd, REC->flags\n'
)
STRING = (
    COMMON.format(name="my", third="common_padding")
    + "\tfield:s32 dfd;\toffset:24;\tsize:4;\tsigned:1;\n"
    + "\tfield:__data_loc char[] f;\toffset:28;\tsize:4;\tsigned:1;\n"
    + "\tfield:u32 b;\toffset:32;\tsize:4;\tsigned:0;\n\n"
    + 'print fmt: "(%lx) dfd=%ld f=\\"%s\\" b=%lx", REC->__probe_ip, REC->dfd, __get_str(f), REC->b\n'
)
ROWS = [  # form, definition, the arguments as printed, their values
    (
        UNTYPED,
        "p:kprobes/my do_sys_open dfd=$arg0 flags=$arg2",
        "dfd=ffffffffffffff9c flags=8000",
        {"dfd": 0xFFFFFFFFFFFFFF9C, "flags": 0x8000},
    ),
    (TYPED, "p:kprobes/my do_sys_open dfd=%di:s32 flags=%dx", "dfd=-100 flags=8000", {"dfd": -100, "flags": 0x8000}),
    (
        STRING,
        "p:kprobes/my do_sys_open dfd=%di:s32 f=+0(%si):string b=%dx:b4@12/32",
        'dfd=-100 f="/etc/passwd" b=a',
        {"dfd": -100, "f": "/etc/passwd", "b": 10},
    ),
]


def trace(shown: str) -> bytes:
    return f"{HEADER}             cat-42    [001]    10.000250: my: (do_sys_open+0x0/0x190) {shown}\n".encode()


def only(records: list[object]) -> Event:
    (event,) = [record for record in records if isinstance(record, Event)]
    return event


@pytest.mark.parametrize(("form", "definition", "shown", "fields"), ROWS)
def test_by_the_format(form: str, definition: str, shown: str, fields: dict[str, object]) -> None:
    event = only([*parse(trace(shown), {"my": form})])
    assert (event.task, event.pid, event.cpu, event.flags, event.timestamp) == ("cat", 42, 1, "", 10000250000)
    assert event.fields == fields


@pytest.mark.parametrize(("form", "definition", "shown", "fields"), ROWS)
def test_by_the_definition(form: str, definition: str, shown: str, fields: dict[str, object]) -> None:
    assert only([*parse(trace(shown), definitions=[definition])]).fields == fields


def test_text_alone_does_not_tell_a_number_from_a_word() -> None:
    assert only([*parse(trace('dfd=-100 f="/etc/passwd" b=a'))]).fields == {"dfd": -100, "f": "/etc/passwd", "b": "a"}
