"""Arguments of every type on every kernel, with and without the format."""

from collections.abc import Callable
from typing import Any

import pytest

from kprobe_text.text import FAULT, CodeAddress, Event, parse

TRAMPOLINE = CodeAddress("arch_rethook_trampoline", 0, 0x60, "", None, "arch_rethook_trampoline+0x0/0x60")

# The fields of the first hit by task "one".
TYPES: list[tuple[str, str, dict[str, Any]]] = [
    ("3.2", "ent", {"dfd": -100, "s": "/tmp/f0", "flags": 0x8000, "mode": 0}),
    ("3.2", "t_u8", {"di": 0x9C, "dx": 0, "cx": 0, "ip": 0x91}),
    ("3.2", "t_s64", {"di": 4294967196, "dx": 32768, "cx": 0, "ip": -2129897327}),
    ("3.2", "t_ustr2", {"a": "/tmp/f0", "b": "tmp/f0", "c": ""}),
    ("3.13", "t_u8", {"di": 0x9C, "dx": 0, "cx": 0, "ip": 0x51}),
    ("3.13", "t_bit", {"a": 0, "b": 1, "c": 8, "d": 0xFFFF}),
    ("4.4", "t_u8", {"di": 0x9C, "dx": 0, "cx": 0, "ip": 0x51}),
    ("4.4", "t_bad", {"a": 0, "b": FAULT, "c": 0, "d": 0}),
    ("4.19", "t_u8", {"di": 156, "dx": 0, "cx": 0, "ip": 225}),
    ("4.19", "t_comm", {"arg1": "oneone", "c": "one"}),
    ("5.10", "t_arr", {"a": (47, 116, 109, 112), "b": (0x742F, 0x706D), "c": (0xFFFFFFFF8105D2F0, 0x8000)}),
    ("5.10", "t_ustr2", {"a": "/tmp/f0", "b": "tmp/f0", "c": FAULT}),
    ("6.1", "ent", {"dfd": -100, "s": "/tmp/f0", "flags": 4144832, "mode": 0x8000}),
    ("6.1", "t_u16", {"di": 65436, "dx": 16064, "cx": 32768, "ip": 34209}),
    ("6.1", "t_x16", {"di": 0xFF9C, "dx": 0x3EC0, "cx": 0x8000, "ip": 0x85A1}),
    ("6.1", "t_s64", {"di": 4294967196, "dx": -60473135382848, "cx": 32768, "ip": -2127264351}),
    ("6.1", "t_u64", {"di": 4294967196, "dx": 18446683600574168768, "cx": 32768, "ip": 18446744071582287265}),
    ("6.1", "t_arr", {"a": (47, 116, 109, 112), "b": (0x742F, 0x706D), "c": (0xFFFFFFFF8106B920, 0x8000)}),
    ("6.1", "t_sym", {"a": TRAMPOLINE, "b": "arch_rethook_trampoline+0x0/0x60"}),
    (
        "6.1",
        "t_symbol",
        {
            "di": 0xFFFFFF9C,
            "dx": 0xFFFFC900003F3EC0,
            "cx": 0x8000,
            "ip": CodeAddress("do_sys_openat2", 1, 0x170, "", None, "do_sys_openat2+0x1/0x170"),
        },
    ),
    ("6.1", "t_imm", {"a": 1, "b": 0xFFFFFFFFFFFFFFFF, "c": "foo", "d": 16}),
    ("6.1", "t_bad", {"a": 0, "b": FAULT, "c": 0, "d": 0}),
    ("6.1", "t_many", {f"a{i}": 156 for i in range(1, 61)}),
    ("6.1", "off", {}),
    ("7.2", "t_arg", {"dfd": -100, "filename": 0x7FFEAAB21F4C, "how": 0xFFFFC900004DBCA0}),
    ("7.2", "t_char", {"di": "\udc9c", "dx": "\udca0", "cx": "\0", "ip": "\udc81"}),
]


def first(data: bytes, name: str, formats: dict[str, str] | None) -> Event:
    events = [record for record in parse(data, formats) if isinstance(record, Event) and record.name == name]
    return next((event for event in events if event.task == "one"), events[0])


@pytest.mark.parametrize(("series", "name", "fields"), TYPES)
def test_types_by_the_format(
    recorded: Callable[[str, str], bytes],
    formats: Callable[[str, str], dict[str, str]],
    series: str,
    name: str,
    fields: dict[str, Any],
) -> None:
    found = first(recorded(series, "01_types.trace"), name, formats(series, "01_types.formats"))
    if name == "t_many":
        assert dict(found.fields) == fields
    else:
        assert found.task == "one"
        assert dict(found.fields) == fields


@pytest.mark.parametrize(("series", "name", "fields"), [row for row in TYPES if row[0] not in ("3.2", "3.13")])
def test_types_by_their_look(
    recorded: Callable[[str, str], bytes], series: str, name: str, fields: dict[str, Any]
) -> None:
    assert dict(first(recorded(series, "01_types.trace"), name, None).fields) == fields


def test_numbers_without_0x_need_the_format(
    recorded: Callable[[str, str], bytes], formats: Callable[[str, str], dict[str, str]]
) -> None:
    data = recorded("3.2", "01_types.trace")
    assert first(data, "t_u64", formats("3.2", "01_types.formats")).fields["di"] == 0xFFFFFF9C
    assert first(data, "t_u64", None).fields == {"di": "ffffff9c", "dx": 8000, "cx": 0, "ip": "ffffffff810c5891"}


def test_characters_in_an_array(recorded: Callable[[str, str], bytes]) -> None:
    fields = first(recorded("7.2", "01_types.trace"), "t_arr", None).fields
    assert fields["d"] == ("/", "t", "m", "p", "/")


@pytest.mark.parametrize("with_formats", [False, True])
def test_a_string_with_a_newline_at_its_end(
    recorded: Callable[[str, str], bytes], formats: Callable[[str, str], dict[str, str]], with_formats: bool
) -> None:
    known = formats("6.1", "01_types.formats") if with_formats else None
    event = first(recorded("6.1", "01_types.trace"), "t_mem", known)
    banner = (
        "version 6.1.0-54-cloud-amd64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0, "
        "GNU ld (GNU Binutils for Debian) 2.40) #1 SMP PREEMPT_DYNAMIC Debian 6.1.190-1 (2026-10-16)\n"
    )
    assert dict(event.fields) == {"a": 0xFFFEE561, "b": "Linux " + banner, "c": banner, "d": 0x756E694C}


FORMAT = """name: e
ID: 1
format:
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:__data_loc char[] s;	offset:16;	size:4;	signed:1;

print fmt: "(%lx) {}", REC->__probe_ip
"""


@pytest.mark.parametrize(
    ("shown", "body", "fields"),
    [
        (r"s=\"%s\" n=%d", b's="a" n=1 b="" n=2', {"s": 'a" n=1 b="', "n": 2}),
        (r"s=\"%s\" n=%d", b's="a\nb" n=-2', {"s": "a\nb", "n": -2}),
        (r"s=\"%s\" n=%d", b"s=(fault) n=2", {"s": FAULT, "n": 2}),
        (r"s=\"%s\" n=%d", b's="(fault)" n=2', {"s": "(fault)", "n": 2}),
        (r"s=\"%s\" n=%d", b's="\xff" n=2', {"s": "\udcff", "n": 2}),
        (r"s=\"%s\" t=\"%s\"", b's="x=1 " t="y"', {"s": "x=1 ", "t": "y"}),
        (r"a=\"%s\" b=\"%s\" c=\"%s\"", b'a="1" b=(fault) c="3" x="', {"a": "1", "b": FAULT, "c": '3" x='}),
        (r"s={\"%s\",\"%s\"} n=%u", b's={"a}",(fault)} n=1', {"s": ("a}", FAULT), "n": 1}),
        (r"s={'%c','%c'}", b"s={',','}'}", {"s": (",", "}")}),
        (r"s='%c' t='%c'", b"s=''' t='\n'", {"s": "'", "t": "\n"}),
        (
            r"s=%pS t=%pS",
            b"s=f+0x1/0x2 [m] t=0xff",
            {"s": CodeAddress("f", 1, 2, "m", None, "f+0x1/0x2 [m]"), "t": 255},
        ),
        (r"s={%Lx,%Lx}", b"s={ff,10}", {"s": (255, 16)}),
    ],
)  # fmt: skip
def test_strings_and_arrays(shown: str, body: bytes, fields: dict[str, Any]) -> None:
    line = b"            init-1       [001] .....    11.791146: e: (f+0x0/0x170) " + body + b"\n"
    (event,) = parse(line, {"e": FORMAT.format(shown)})
    assert isinstance(event, Event)
    assert dict(event.fields) == fields


def test_formats_from_a_function_are_asked_for_once() -> None:
    asked: list[str] = []

    def format_of(name: str) -> str | None:
        asked.append(name)
        return FORMAT.format("n=%x") if name == "e" else None

    line = b"            init-1       [001] .....    11.791146: %s: (f+0x0/0x170) n=10\n"
    events = parse(line % b"e" + line % b"g" + line % b"e" + line % b"g", format_of)
    assert [event.fields["n"] for event in events if isinstance(event, Event)] == [16, 10, 16, 10]
    assert asked == ["e", "g"]


def test_a_format_that_is_none_is_no_format() -> None:
    line = b"            init-1       [001] .....    11.791146: e: (f+0x0/0x170) n=10\n"
    (event,) = parse(line, {"e": "rubbish"})
    assert isinstance(event, Event)
    assert event.fields == {"n": 10}
