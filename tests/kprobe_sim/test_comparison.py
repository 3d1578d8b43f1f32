"""What a compiled filter lets pass: literal records, and laws.

The answers follow from the source of 6.1.192 and 6.12.117; the recorded ones are in test_predicate.py.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprobe_sim.builds.gates import FilterGates, filter_gates
from kprobe_sim.language.filters.predicate import FilterRefused, compile_filter
from kprobe_sim.records.field import Field

OLD = filter_gates((6, 1, 190))
NEW = filter_gates((6, 12, 117))

FIELDS = [
    Field("u8", "u1", 8, 1, False),
    Field("s8", "s1", 9, 1, True),
    Field("s16", "s2", 10, 2, True),
    Field("u32", "u4", 12, 4, False),
    Field("s64", "s8", 16, 8, True),
    Field("u8[3]", "odd", 24, 3, False),
    Field("char[4]", "fixed", 27, 4, True),
    Field("__data_loc char[]", "st", 31, 4, True),
    Field("char *", "ptr", 35, 8, False),
    Field("__rel_loc char[]", "rel", 43, 4, True),
    Field("__data_loc cpumask_t[]", "mask", 47, 4, False),
]


def record(
    u1: int = 0,
    s1: int = 0,
    s2: int = 0,
    u4: int = 0,
    s8: int = 0,
    fixed: bytes = b"",
    st: bytes = b"\0",
    ptr: int = 0,
    rel: bytes = b"\0",
    mask: int = 0,
) -> bytes:
    end = 51
    return (
        struct.pack("<HBBi", 1, 0, 0, -7)
        + struct.pack("<BbhIq3x4s", u1, s1, s2, u4, s8, fixed)
        + struct.pack("<HHQ", end, len(st), ptr)
        + struct.pack("<HHHH", end + len(st) - 47, len(rel), end + len(st) + len(rel), 8)
        + st
        + rel
        + struct.pack("<Q", mask)
    )


def passes(
    text: str, data: bytes, gates: FilterGates = OLD, cpu: int = 0, comm: bytes = b"bash", **machine: Any
) -> bool:
    return compile_filter(text, FIELDS, gates=gates, **machine).match(data, cpu=cpu, comm=comm)


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        # the constant is cut to the field's width
        ("u1 == 256", {"u1": 0}, True),
        ("u1 > 300", {"u1": 45}, True),
        ("u1 > 300", {"u1": 44}, False),
        ("s1 == 255", {"s1": -1}, True),
        ("s1 < 255", {"s1": -2}, True),  # 255 is -1
        ("s1 < 128", {"s1": 0}, False),  # 128 is -128
        ("s2 == -1", {"s2": -1}, True),
        ("s2 <= 0x18000", {"s2": -32768}, True),
        ("u4 == 0x100000005", {"u4": 5}, True),
        ("u4 >= 0xffffffff", {"u4": 0xFFFFFFFF}, True),
        ("s8 < -1", {"s8": -2}, True),
        ("s8 & 0x4000000000000000", {"s8": -1}, True),
        ("s8 & -8", {"s8": 7}, False),
        # 3 bytes are no number: never true
        ("odd == 0", {}, False),
        ("odd != 0", {}, False),
        ("odd >= 0", {}, False),
        ("!odd == 0", {}, True),
        # strings: full
        ("st == 'abc'", {"st": b"abc\0"}, True),
        ("st == 'abc'", {"st": b"abcd\0"}, False),
        ("st == 'abc'", {"st": b"ab\0"}, False),
        ("st != 'abc'", {"st": b"ab\0"}, True),
        ("st == ''", {"st": b"\0"}, True),
        ("st == ''", {"st": b""}, True),  # a string that could not be read
        # searches
        ("st ~ 'ab*'", {"st": b"abc\0"}, True),
        ("st ~ 'ab*'", {"st": b"a\0"}, False),
        ("st ~ '*bc'", {"st": b"abc\0"}, True),
        ("st ~ '*ab'", {"st": b"abc\0"}, False),
        ("st ~ '*'", {"st": b"\0"}, True),
        ("st ~ '*'", {"st": b""}, False),
        ("st ~ '**'", {"st": b""}, True),
        ("st ~ '*b*'", {"st": b"abc\0"}, True),
        ("st ~ '!*b*'", {"st": b"abc\0"}, False),
        ("st ~ '!'", {"st": b"\0"}, False),
        ("st ~ '!'", {"st": b"x\0"}, True),
        ("st ~ '!!a'", {"st": b"!a\0"}, False),
        # a digit first: plain text
        ("st ~ '1*'", {"st": b"1*\0"}, True),
        ("st ~ '1*'", {"st": b"12\0"}, False),
        ("st ~ '!1*'", {"st": b"12\0"}, True),
        # globs
        ("st ~ 'a?c'", {"st": b"abc\0"}, True),
        ("st ~ 'a*c*e'", {"st": b"abcde\0"}, True),
        ("st ~ '[0-9]*'", {"st": b"7x\0"}, True),
        ("st ~ 'a\\*'", {"st": b"a*\0"}, True),
        ("st ~ 'a\\*'", {"st": b"ab\0"}, False),
        # [!x] takes the end of the string for a character before 6.12
        ("st ~ 'ab[!x]'", {"st": b"ab\0"}, True),
        ("st ~ 'ab[!x][!y]'", {"st": b"ab\0"}, True),
        ("st ~ 'ab[!x]y'", {"st": b"ab\0"}, False),
        # a field of fixed size needs no NUL
        ("fixed == 'abcd'", {"fixed": b"abcd"}, True),
        ("fixed == 'abcde'", {"fixed": b"abcd"}, False),
        ("fixed == 'ab'", {"fixed": b"ab"}, True),
        ("fixed ~ 'abcd*'", {"fixed": b"abcd"}, True),
        ("fixed ~ '*bc'", {"fixed": b"abc"}, True),
        ("fixed ~ '*b'", {"fixed": b"ab"}, False),  # the end of the field, not of the string
        ("fixed ~ '*cd'", {"fixed": b"abcd"}, False),  # less one for a NUL that isn't there
        ("fixed ~ 'a?c[d]'", {"fixed": b"abcd"}, True),
        ("rel == 'xyz'", {"rel": b"xyz\0", "st": b"abc\0"}, True),
        ("rel == 'xyz'", {"rel": b"xy\0", "st": b"abc\0"}, False),
        # a pointer that can't be followed: false, and != too
        ("ptr == 'x'", {"ptr": 1}, False),
        ("ptr != 'x'", {"ptr": 1}, False),
        # generic and common fields
        ("comm == 'bash'", {}, True),
        ("comm ~ 'ba*'", {}, True),
        ("comm ~ '*as*'", {}, True),
        ("comm ~ '*sh'", {}, False),  # looks at the last bytes of the 16
        ("comm ~ '*'", {}, True),
        ("comm ~ '*[s]h'", {}, True),
        ("common_pid == -7", {}, True),
        ("common_type == 1", {}, True),
        ("cpu == 0", {}, True),
        ("CPU > -1", {}, True),
        ("cpu == 0x100000000", {}, True),
        ("cpu & 0xff", {}, False),
        ("!cpu & 1", {}, True),
    ],
)
def test_match(text: str, values: dict[str, Any], expected: bool) -> None:
    assert passes(text, record(**values)) is expected


def test_match_of_other_kernels() -> None:
    data = record(st=b"ab\0", fixed=b"abcd")
    assert passes("st ~ 'ab[!x]'", data) is True
    assert passes("st ~ 'ab[!x]'", data, NEW) is False
    assert passes("fixed == 'abcde'", data, filter_gates((6, 1, 182))) is True
    assert passes("fixed == 'abcde'", data, filter_gates((6, 1, 183))) is False
    # a glob runs out of the field into what follows (here the offset of `st`, 0x33), up to a NUL
    assert passes("fixed ~ 'a?cd?'", data, filter_gates((6, 1, 177))) is True
    assert passes("fixed ~ 'a?cd?'", data, filter_gates((6, 1, 178))) is False


def test_name_of_a_task_is_at_most_fifteen_bytes() -> None:
    name = b"abcdefghijklmnop"
    assert passes("comm == 'abcdefghijklmno'", record(), comm=name) is True
    assert passes("comm == 'abcdefghijklmnop'", record(), comm=name) is False
    assert passes("comm ~ '*no'", record(), comm=name) is True


def test_string_at_a_pointer() -> None:
    memory = {(0x1000, False): b"kernel\0rest", (0x1000, True): b"user", (0x2000, False): b"x" * 2000}

    def read_string(address: int, user: bool) -> bytes | None:
        return memory.get((address, user))

    def at(text: str, address: int) -> bool:
        return passes(text, record(ptr=address), read_string=read_string)

    assert at("ptr == 'kernel'", 0x1000) is True
    assert at("ptr.ustring == 'user'", 0x1000) is True
    assert at("ptr != 'kernel'", 0x1000) is False
    assert at("ptr ~ '*el'", 0x1000) is True
    assert at("ptr != 'kernel'", 0x3000) is False
    assert at("ptr ~ '*x'", 0x2000) is True


def test_function() -> None:
    start, end = 0xFFFFFFFF81310000, 0xFFFFFFFF81310300

    def function_range(place: str | int) -> tuple[int, int] | None:
        return (start, end) if place == "vfs_read" or (isinstance(place, int) and start <= place < end) else None

    def at(text: str, address: int) -> bool:
        data = struct.pack("<8xQ", address) + bytes(80)
        return compile_filter(
            text, [Field("unsigned long", "__probe_ip", 8, 8, False)], gates=NEW, function_range=function_range
        ).match(data, cpu=0, comm=b"x")

    for text in ("__probe_ip.function == vfs_read", f"__probe_ip.function == {start + 5:#x}"):
        assert [at(text, address) for address in (start - 1, start, end - 1, end)] == [False, True, True, False]
    assert [at("__probe_ip.function != vfs_read", address) for address in (start - 1, start, end)] == [
        True,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("text", "values", "cpu", "expected"),
    [
        ("CPU & CPUS{1-2}", {}, 2, True),
        ("CPU & CPUS{1-2}", {}, 3, False),
        ("CPU == CPUS{1-2}", {}, 1, False),
        ("CPU != CPUS{1-2}", {}, 1, True),
        ("CPU == CPUS{3}", {}, 3, True),
        ("CPU & CPUS{3}", {}, 3, True),
        ("CPU != CPUS{3}", {}, 3, False),
        ("CPU & CPUS{ }", {}, 0, False),
        ("u4 & CPUS{0,2}", {"u4": 2}, 0, True),
        ("u4 & CPUS{0,2}", {"u4": 1}, 0, False),
        ("u4 != CPUS{0,2}", {"u4": 3}, 0, True),
        ("u4 != CPUS{0,2}", {"u4": 4}, 0, False),  # there is no CPU 4
        ("u4 != CPUS{2}", {"u4": 4}, 0, True),
        ("u4 & CPUS{2}", {"u4": 2}, 0, True),
        ("s8 & CPUS{0,2}", {"s8": 0x100000002}, 0, True),  # cut to 32 bits
        ("mask == CPUS{0,2}", {"mask": 5}, 0, True),
        ("mask == CPUS{0,2}", {"mask": 7}, 0, False),
        ("mask == CPUS{0}", {"mask": 1}, 0, True),
        ("mask != CPUS{0}", {"mask": 3}, 0, True),
        ("mask & CPUS{0}", {"mask": 3}, 0, True),
        ("mask & CPUS{2-3}", {"mask": 3}, 0, False),
    ],
)
def test_match_of_cpu_sets(text: str, values: dict[str, Any], cpu: int, expected: bool) -> None:
    assert passes(text, record(**values), NEW, cpu=cpu, cpus=4) is expected


def test_stack_is_never_compared() -> None:
    assert passes("stacktrace != 0", record(), NEW) is False
    assert passes("STACKTRACE == 0", record(), NEW) is False


def test_own_field_hides_the_generic_one() -> None:
    own = [*FIELDS, Field("u8", "cpu", 8, 1, False)]
    compiled = compile_filter("cpu == 9", own, gates=OLD)
    assert compiled.match(record(u1=9), cpu=0, comm=b"x") is True
    with pytest.raises(FilterRefused, match="Invalid argument"):
        compile_filter("comm == 'x'", [Field("u8", "comm", 8, 1, False)], gates=OLD)


def test_trailing_operator_is_as_if_absent() -> None:
    for text in ("u1 == 1 &&", "u1 == 1 ||", "u1 == 1 && !", "s1 == 5 || u1 == 1 ||", "u1 == 1 && s1 == 0 ||"):
        assert [passes(text, record(u1=value)) for value in (1, 2)] == [True, False]


def test_deep_nesting_needs_no_stack() -> None:
    depth = 500
    text = "(u1==1||" * depth + "u1==2" + ")" * depth
    assert len(text) > 4000
    assert [passes(text, record(u1=value)) for value in (1, 2, 3)] == [True, True, False]
    negated = "!(" * 1300 + "u1==2" + ")" * 1300
    assert [passes(negated, record(u1=value)) for value in (1, 2)] == [False, True]


# ---- laws ------------------------------------------------------------------------------------------------------

TERMS = st.integers(0, 3).map(lambda bit: (f"u1 & {1 << bit}", lambda value, bit=bit: bool(value >> bit & 1)))


def combined(children: Any) -> Any:
    def join(sign: str, parts: list[Any]) -> Any:
        text = f" {sign} ".join(f"({part[0]})" if sign == "&&" and "||" in part[0] else part[0] for part in parts)
        fold = all if sign == "&&" else any
        return text, lambda value: fold(part[1](value) for part in parts)

    return st.one_of(
        st.tuples(st.sampled_from(["&&", "||"]), st.lists(children, min_size=2, max_size=4)).map(lambda x: join(*x)),
        children.map(lambda part: (f"!({part[0]})", lambda value: not part[1](value))),
        children.map(lambda part: (f"( {part[0]} )", part[1])),
    )


@given(st.recursive(TERMS, combined, max_leaves=12))
def test_logic_is_that_of_and_or_not(expression: Any) -> None:
    text, meaning = expression
    compiled = compile_filter(text, FIELDS, gates=OLD)
    for value in range(16):
        assert compiled.match(record(u1=value), cpu=0, comm=b"x") is meaning(value)


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-(1 << 63), (1 << 63) - 1))
def test_numbers_compare_as_numbers(have: int, want: int) -> None:
    data = record(s8=have)
    answers = {sign: passes(f"s8 {sign} {want}", data) for sign in ("==", "!=", "<", "<=", ">", ">=")}
    assert answers == {
        "==": have == want,
        "!=": have != want,
        "<": have < want,
        "<=": have <= want,
        ">": have > want,
        ">=": have >= want,
    }
