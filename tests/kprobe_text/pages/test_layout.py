"""Format files of recorded kernels, and of static events, as layouts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kprobe_text.pages.layout import EventLayout, FieldLayout, event_layout

TEXT = Path(__file__).parents[3] / "fixtures" / "text"

COMMON = """\
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

"""


def static(*fields: str, name: str = "made", shown: str = '"x"') -> EventLayout:
    return event_layout(f"name: {name}\nID: 7\nformat:\n{COMMON}" + "".join(fields) + f"\nprint fmt: {shown}\n")


def recorded(kernel: str, name: str) -> EventLayout:
    text = (TEXT / kernel / "01_types.formats").read_text()
    part = next(p for p in re.split(r"^== .*\n", text, flags=re.M) if p.startswith(f"name: {name}\n"))
    return event_layout(part)


@pytest.mark.parametrize("declared", ["buf", "buf[]"])
def test_the_text_of_a_mark_has_another_type_up_to_4_14(declared: str) -> None:
    found = static(f"\tfield:char {declared};\toffset:16;\tsize:0;\tsigned:1;\n", name="print")
    assert found.fields == (FieldLayout("buf", 16, 0, "string", False, 1, None, "rest"),)


def test_a_probe_of_3_2_has_a_common_field_more() -> None:
    found = recorded("3.2", "ent")
    assert [f.name for f in found.common] == [
        "common_type", "common_flags", "common_preempt_count", "common_pid", "common_padding",
    ]  # fmt: skip
    assert found.address == FieldLayout("__probe_ip", 16, 8, "int", False, 8, None, "inline")
    assert found.caller is None
    assert found.fields == (
        FieldLayout("dfd", 24, 4, "int", True, 4, None, "inline"),
        FieldLayout("s", 28, 4, "string", False, 4, None, "data_loc"),
        FieldLayout("flags", 32, 4, "int", False, 4, None, "inline"),
        FieldLayout("mode", 36, 8, "int", False, 8, None, "inline"),
    )
    assert (found.id, found.size, found.is_probe) == (641, 44, True)


def test_the_return_probe_of_3_2_has_a_caller() -> None:
    found = recorded("3.2", "r_do_sys_open_0")
    assert found.address == FieldLayout("__probe_func", 16, 8, "int", False, 8, None, "inline")
    assert found.caller == FieldLayout("__probe_ret_ip", 24, 8, "int", False, 8, None, "inline")
    assert [f.name for f in found.fields] == ["arg1"]


def test_what_only_the_print_fmt_says() -> None:
    shown = r""""(%lx) a=%pS b='%c' c={0x%x,0x%x} d={'%c','%c'} e={\"%s\",\"%s\"}", REC->__probe_ip, REC->a, REC->b"""
    found = static(
        "\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;\n",
        "\tfield:u64 a;\toffset:16;\tsize:8;\tsigned:0;\n",
        "\tfield:u8 b;\toffset:24;\tsize:1;\tsigned:0;\n",
        "\tfield:u16 c[2];\toffset:25;\tsize:4;\tsigned:0;\n",
        "\tfield:u8 d[2];\toffset:29;\tsize:2;\tsigned:0;\n",
        "\tfield:__data_loc char[] e[2];\toffset:31;\tsize:8;\tsigned:1;\n",
        shown=shown,
    )
    assert found.fields == (
        FieldLayout("a", 16, 8, "symbol", False, 8, None, "inline"),
        FieldLayout("b", 24, 1, "char", False, 1, None, "inline"),
        FieldLayout("c", 25, 4, "int", False, 2, 2, "inline"),
        FieldLayout("d", 29, 2, "char", False, 1, 2, "inline"),
        FieldLayout("e", 31, 8, "string", False, 4, 2, "data_loc"),
    )
    assert (found.size, found.is_probe) == (39, True)


@pytest.mark.parametrize(
    ("line", "layout"),
    [
        ("char comm[16];\toffset:8;\tsize:16;\tsigned:0;", ("string", False, 1, None, "inline")),
        ("char comm[TASK_COMM_LEN];\toffset:8;\tsize:16;\tsigned:1;", ("string", False, 1, None, "inline")),
        ("const char * comm;\toffset:8;\tsize:8;\tsigned:0;", ("int", False, 8, None, "inline")),
        ("unsigned char comm[6];\toffset:8;\tsize:6;\tsigned:0;", ("int", False, 1, 6, "inline")),
        ("unsigned long comm[6];\toffset:8;\tsize:48;\tsigned:0;", ("int", False, 8, 6, "inline")),
        ("u32 comm[IDS];\toffset:8;\tsize:12;\tsigned:0;", ("int", False, 4, 3, "inline")),
        ("s16 comm;\toffset:8;\tsize:2;\tsigned:1;", ("int", True, 2, None, "inline")),
        ("uuid_t comm;\toffset:8;\tsize:16;\tsigned:0;", ("bytes", False, 1, 16, "inline")),
        ("struct x comm[2];\toffset:8;\tsize:24;\tsigned:0;", ("bytes", False, 1, 24, "inline")),
        ("__data_loc char[] comm;\toffset:8;\tsize:4;\tsigned:0;", ("string", False, 4, None, "data_loc")),
        ("__rel_loc char[] comm;\toffset:8;\tsize:4;\tsigned:0;", ("string", False, 4, None, "rel_loc")),
        ("__data_loc unsigned long[] comm;\toffset:8;\tsize:4;\tsigned:0;", ("int", False, 8, 0, "data_loc")),
        ("__data_loc s32[] comm;\toffset:8;\tsize:4;\tsigned:1;", ("int", True, 4, 0, "data_loc")),
        ("__data_loc cpumask_t comm;\toffset:8;\tsize:4;\tsigned:0;", ("bytes", False, 1, 0, "data_loc")),
        ("char comm[];\toffset:8;\tsize:0;\tsigned:1;", ("string", False, 1, None, "rest")),
        ("unsigned long comm[];\toffset:8;\tsize:0;\tsigned:0;", ("int", False, 8, 0, "rest")),
    ],
)
def test_fields_of_static_events(line: str, layout: tuple[object, ...]) -> None:
    found = static(f"\tfield:{line}\n").fields[0]
    assert (found.name, found.offset) == ("comm", 8)
    assert (found.kind, found.signed, found.item, found.elements, found.where) == layout


def test_a_kernel_of_32_bits_has_short_longs() -> None:
    text = f"name: x\nID: 1\nformat:\n{COMMON}\tfield:__data_loc unsigned long[] a;\toffset:8;\tsize:4;\tsigned:0;\n"
    assert event_layout(text + '\nprint fmt: ""\n', long=4).fields[0].item == 4


def test_a_stack_has_as_many_frames_as_there_are() -> None:
    lines = (
        "\tfield:int size;\toffset:8;\tsize:4;\tsigned:1;\n",
        "\tfield:unsigned long caller[8];\toffset:16;\tsize:64;\tsigned:0;\n",
    )
    found = static(*lines, name="kernel_stack")
    assert found.fields[1] == FieldLayout("caller", 16, 64, "int", False, 8, 0, "rest")
    assert found.size == 12


@pytest.mark.parametrize("path", sorted(TEXT.glob("*/*.formats")), ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_every_recorded_format_has_a_layout(path: Path) -> None:
    parts = [part for part in re.split(r"^== .*\n", path.read_text(), flags=re.M) if part.strip()]
    for part in parts:
        found = event_layout(part)
        assert found.is_probe
        assert found.address is not None
        assert "bytes" not in [field.kind for field in found.fields]
