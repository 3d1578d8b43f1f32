"""Format files of nine kernels."""

from collections.abc import Callable

import pytest

from kprobe_text.text import FormatField, parse_format


def test_a_format(formats: Callable[[str, str], dict[str, str]]) -> None:
    form = parse_format(formats("6.1", "01_types.formats")["ent"])
    assert (form.name, form.id) == ("ent", 1392)
    assert form.fields == (
        FormatField("common_type", "unsigned short", None, 0, 2, False),
        FormatField("common_flags", "unsigned char", None, 2, 1, False),
        FormatField("common_preempt_count", "unsigned char", None, 3, 1, False),
        FormatField("common_pid", "int", None, 4, 4, True),
        FormatField("__probe_ip", "unsigned long", None, 8, 8, False),
        FormatField("dfd", "s32", None, 16, 4, True),
        FormatField("s", "__data_loc char", "", 20, 4, True),
        FormatField("flags", "u32", None, 24, 4, False),
        FormatField("mode", "u64", None, 28, 8, False),
    )
    assert form.print_fmt == (
        '"(%lx) dfd=%d s=\\"%s\\" flags=%u mode=0x%Lx", REC->__probe_ip, REC->dfd, __get_str(s), REC->flags, REC->mode'
    )


def test_the_padding_of_3_2(formats: Callable[[str, str], dict[str, str]]) -> None:
    fields = parse_format(formats("3.2", "01_types.formats")["ent"]).fields
    assert fields[4] == FormatField("common_padding", "int", None, 8, 4, True)
    assert fields[5] == FormatField("__probe_ip", "unsigned long", None, 16, 8, False)


def test_arrays(formats: Callable[[str, str], dict[str, str]]) -> None:
    of = {series: parse_format(formats(series, "01_types.formats")["t_arr"]).fields[5] for series in ("5.10", "6.1")}
    assert of["5.10"] == FormatField("a", "u8", "4", 16, 4, False)
    assert of["6.1"] == FormatField("a", "u8", "", 16, 4, False)


def test_bytes_and_a_field_of_a_tracepoint() -> None:
    text = b'name: s\nID: 314\nformat:\n\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\nprint fmt: ""\n'
    assert parse_format(text).fields == (FormatField("prev_comm", "char", "16", 8, 16, False),)


@pytest.mark.parametrize("text", ["", "name: x\nID: 1\n", 'ID: 1\nprint fmt: ""', 'name: x\nprint fmt: ""'])
def test_what_is_no_format(text: str) -> None:
    with pytest.raises(ValueError, match="not a format file"):
        parse_format(text)
