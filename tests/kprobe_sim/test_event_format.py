"""The format file: fields, arrays and print fmt."""

from __future__ import annotations

from typing import Any

import pytest

from kprobe_sim.events.event_format import field_line
from kprobe_sim.records.field import Field


@pytest.mark.parametrize(
    ("field", "newer", "older"),
    [
        (
            Field("u8[4]", "a", 16, 4, False),
            "\tfield:u8 a[];\toffset:16;\tsize:4;\tsigned:0;\n",
            "\tfield:u8 a[4];\toffset:16;\tsize:4;\tsigned:0;\n",
        ),
        (
            Field("__data_loc char[][3]", "e", 24, 12, True),
            "\tfield:__data_loc char[][3] e;\toffset:24;\tsize:12;\tsigned:1;\n",
            "\tfield:__data_loc char[][3] e;\toffset:24;\tsize:12;\tsigned:1;\n",
        ),
        (
            Field("unsigned long", "__probe_ip", 8, 8, False),
            "\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;\n",
            "\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;\n",
        ),
    ],
)
def test_field_lines(field: Field, newer: str, older: str) -> None:
    assert field_line(field, array_length=False) == newer
    assert field_line(field, array_length=True) == older


def test_a_return_event_whole(registry: Any) -> None:
    """As 6.1 showed it, fixtures/definitions/sequences.json, e; every other form is in fixtures/definitions."""
    registry.write(b"r:e do_sys_openat2 $retval a=$stack b=$stack0:u8 s=+0($retval):string[2]")
    assert registry.event("kprobes", "e").format().decode() == (
        "name: e\n"
        "ID: 1396\n"
        "format:\n"
        "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
        "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
        "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
        "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n"
        "\n"
        "\tfield:unsigned long __probe_func;\toffset:8;\tsize:8;\tsigned:0;\n"
        "\tfield:unsigned long __probe_ret_ip;\toffset:16;\tsize:8;\tsigned:0;\n"
        "\tfield:u64 arg1;\toffset:24;\tsize:8;\tsigned:0;\n"
        "\tfield:u64 a;\toffset:32;\tsize:8;\tsigned:0;\n"
        "\tfield:u8 b;\toffset:40;\tsize:1;\tsigned:0;\n"
        "\tfield:__data_loc char[][2] s;\toffset:41;\tsize:8;\tsigned:1;\n"
        "\n"
        'print fmt: "(%lx <- %lx) arg1=0x%Lx a=0x%Lx b=%u s={\\"%s\\",\\"%s\\"}", REC->__probe_func, '
        "REC->__probe_ret_ip, REC->arg1, REC->a, REC->b, __get_str(s[0]), __get_str(s[1])\n"
    )
