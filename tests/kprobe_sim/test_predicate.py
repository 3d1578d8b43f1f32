"""Filters, held to what kernels answered: fixtures/filters.

SERIES.jsonl: 189 filters written to the event of SERIES.format on a machine of two CPUs while a program called "rec"
opened ten files: errno, the text of the `filter` file afterwards, the entry of error_log, and the paths of the records
that passed.  observed.jsonl: 224 filters on another event and one CPU.
"""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprobe_sim.errlog import ErrorLog
from kprobe_sim.field import Field
from kprobe_sim.filter_errors import LOG_LOCATION
from kprobe_sim.filter_file import FilterState, write_filter
from kprobe_sim.filter_gates import FilterGates, filter_gates
from kprobe_sim.predicate import FilterRefused, Predicate, compile_filter
from kprobe_sim.predicate_term import Machine

FIXTURES = Path(__file__).parents[2] / "fixtures" / "filters"
VERSIONS = {
    "4.19": (4, 19, 108),
    "5.10": (5, 10, 262),
    "6.1": (6, 1, 190),
    "6.12": (6, 12, 117),
    "7.2": (7, 2, 13),
    "7.3": (7, 3, 0),  # 7.3-rc7
}
FUNCTIONS = {
    "do_sys_openat2": (0xFFFFFFFF81300000, 0xFFFFFFFF813000A0),
    "do_exit": (0xFFFFFFFF81080000, 0xFFFFFFFF81080A00),
    "vfs_read": (0xFFFFFFFF81310000, 0xFFFFFFFF81310300),
}

Row = dict[str, Any]


def function_range(place: str | int) -> tuple[int, int] | None:
    if isinstance(place, str):
        return FUNCTIONS.get(place)
    return next((span for span in FUNCTIONS.values() if span[0] <= place < span[1]), None)


def rows(name: str) -> list[Row]:
    return [json.loads(line) for line in (FIXTURES / name).read_text().splitlines()]


def fields_of(format_: str) -> list[Field]:
    found = re.findall(r"\tfield:(.*) (\S+);\toffset:(\d+);\tsize:(\d+);\tsigned:(\d);", format_)
    return [
        Field(type_ + name[len(name.split("[")[0]) :], name.split("[")[0], int(offset), int(size), signed == "1")
        for type_, name, offset, size, signed in found
    ]


def outcome(row: Row, fields: list[Field], machine: Machine) -> tuple[int, str, FilterState]:
    """Return errno, the text of the file and the new state (the old one when nothing changed)."""
    try:
        state = write_filter(row["input"].encode("latin-1"), fields, machine)
    except OSError as refused:
        return refused.errno or 0, "none\n", FilterState()
    return (state.refused.errno if state.refused else 0), state.shown.decode("latin-1"), state


# ---- the recorded event and its records ------------------------------------------------------------------------

RECORDED = [(series, row) for series in VERSIONS if series != "7.3" for row in rows(f"{series}.jsonl")]
RECORDED_IDS = [f"{series}-{row['n']}" for series, row in RECORDED]

# Path, dfd and open flags of each call, in order.  The paths are recorded; dfd follows from rows 1 and 3, the flags
# from rows 24-40 and 175: two files were opened for writing, two for both, one of these created, one with another flag.
CALLS = [
    ("/tmp/f0", -5, 0x8000),
    ("/tmp/f1", -100, 0x8001),
    ("/tmp/nonexistent", -5, 0x8002),
    ("/tmp/new1", -100, 0x8042),
    ("/etc/passwd", -5, 0x88000),
    ("/dev/null", -100, 0x8001),
    ("", -5, 0x8000),
    ("/tmp/with space", -100, 0x8000),
    ("/tmp/a*b?c[d]", -5, 0x8000),
    ("rel/f1.txt", -100, 0x8000),
]
# Not deducible, so set to anything that fits: the stack word of `sym` and `ptr` (not 0), `end`, `common_pid` (not 0),
# `arr` of the empty path, and on which CPU each row ran.


def entry(fields: list[Field], series: str, path: str, dfd: int, flags: int) -> bytes:
    """Lay out one record as the kernel did."""
    known = {
        "common_type": 1394,
        "common_pid": 154,
        "__probe_ip": FUNCTIONS["do_sys_openat2"][0] + 4,
        "dfd": dfd,
        "flags": flags,
        "u64f": flags,
        "f8": flags & 0xFF,
        "x32f": flags & 0xFFFFFFFF,
        "bf": flags >> 15 & 1,
        "ptr": 0x7FFD12345678,
        "sym": 0xFFFFFFFF81300123,
        "arr": int.from_bytes(path.encode()[:2], "little"),
        "end": dfd & 0xFFFFFFFF,
    }
    # An empty path was a string of no bytes ("(fault)") on 5.10 to 6.12.
    path_bytes = path.encode() + b"\0" if path or series in ("4.19", "7.2") else b""
    strings = {"com": b"rec\0", "s": path_bytes}
    fixed = bytearray(max(field.offset + field.size for field in fields))
    payload = b""
    for field in fields:
        if field.name in strings:
            value = len(strings[field.name]) << 16 | len(fixed) + len(payload)
            payload += strings[field.name]
        else:
            value = known.get(field.name, 0)
        width = 1 << 8 * field.size
        fixed[field.offset : field.offset + field.size] = (value % width).to_bytes(field.size, "little")
    return bytes(fixed) + payload


@pytest.fixture(scope="module")
def recorded_fields() -> dict[str, list[Field]]:
    return {series: fields_of((FIXTURES / f"{series}.format").read_text()) for series in VERSIONS if series != "7.3"}


@pytest.mark.parametrize(("series", "row"), RECORDED, ids=RECORDED_IDS)
def test_recorded_answer(series: str, row: Row, recorded_fields: dict[str, list[Field]]) -> None:
    machine = Machine(filter_gates(VERSIONS[series]), cpus=2, function_range=function_range)
    number, text, state = outcome(row, recorded_fields[series], machine)

    assert (number, text) == (row["errno"], row["readback"])
    if series == "4.19":  # no error_log yet
        return
    log = ErrorLog(lambda: 0, command_size=256 if series == "5.10" else None)
    if state.refused:
        refused = state.refused
        column = refused.log_position & (0xFF if series == "5.10" else 0xFFFF)  # 5.10 keeps it in a byte
        log.log(LOG_LOCATION, refused.log_message, refused.command, column)
    assert log.text().decode("latin-1") == (f"[    0.000000] {row['log']}" if "log" in row else "")


MATCHED = [(series, row) for series, row in RECORDED if "matched" in row]


@pytest.mark.parametrize(("series", "row"), MATCHED, ids=[f"{series}-{row['n']}" for series, row in MATCHED])
def test_recorded_matches(series: str, row: Row, recorded_fields: dict[str, list[Field]]) -> None:
    fields = recorded_fields[series]
    machine = Machine(filter_gates(VERSIONS[series]), cpus=2, function_range=function_range)
    state = write_filter(row["input"].encode("latin-1"), fields, machine)

    def passed(cpu: int) -> list[str]:
        return [
            path or ("" if series in ("4.19", "7.2") else "(fault)")
            for path, dfd, flags in CALLS
            if state.predicate is None
            or state.predicate.match(entry(fields, series, path, dfd, flags), cpu=cpu, comm=b"rec")
        ]

    if re.search("cpu|CPU", row["input"]) and "CPU < 2" not in row["input"]:
        # All ten calls ran on one CPU, which one isn't recorded.
        assert row["matched"] in (passed(cpu=0), passed(cpu=1))
    else:
        assert passed(cpu=0) == row["matched"]


# ---- the observed event ----------------------------------------------------------------------------------------

OBSERVED_FIELDS = [
    Field("unsigned long", "__probe_ip", 8, 8, False),
    Field("u8", "u1", 16, 1, False),
    Field("u32", "u4", 17, 4, False),
    Field("u64", "u8", 21, 8, False),
    Field("s32", "s4", 29, 4, True),
    Field("s64", "s8", 33, 8, True),
    Field("__data_loc char[]", "st", 41, 4, True),
    Field("__data_loc char[]", "us", 45, 4, True),
    Field("u64", "sy", 49, 8, False),
    Field("u8[4]", "ar", 57, 4, False),
    Field("__data_loc char[][2]", "sa", 61, 8, True),
    Field("u8", "bf", 69, 1, False),
    Field("__data_loc char[]", "co", 70, 4, True),
]
OBSERVED = [(series, row) for row in rows("observed.jsonl") for series in row["series"]]


@pytest.mark.parametrize(("series", "row"), OBSERVED, ids=[f"{s}-{i}" for i, (s, _) in enumerate(OBSERVED)])
def test_observed_answer(series: str, row: Row) -> None:
    machine = Machine(filter_gates(VERSIONS[series]), cpus=1, function_range=function_range)
    number, text, state = outcome(row, OBSERVED_FIELDS, machine)

    assert number == row["errno"]
    if "readback" in row:
        assert text == row["readback"]
    assert (state.refused.log_message if state.refused else None) == row.get("message")
    if "column" in row:
        assert state.refused is not None
        assert state.refused.log_position == row["column"]


# ---- corners that follow from the source of 6.1.192 and 6.12.117 -------------------------------------------------

OLD = filter_gates((6, 1, 190))
NEW = filter_gates((6, 12, 117))


def refusal(text: str | bytes, gates: FilterGates = OLD, fields: list[Field] = OBSERVED_FIELDS) -> FilterRefused:
    with pytest.raises(FilterRefused) as caught:
        compile_filter(text, fields, gates=gates, cpus=4, function_range=function_range)
    return caught.value


def verdict(text: str | bytes, gates: FilterGates = OLD, fields: list[Field] = OBSERVED_FIELDS) -> tuple[int, str, int]:
    refused = refusal(text, gates, fields)
    return refused.errno, refused.log_message, refused.log_position


@pytest.mark.parametrize(
    ("text", "number", "message", "column"),
    [
        # brackets and quotes are counted before anything is read
        ("nosuch=='", 3, "Missing matching quote", 8),
        ("nosuch==1)'", 1, "Too few '('", 9),
        ("((nosuch", 2, "Too many '('", 1),
        ("(u4==1) && (u4==2", 2, "Too many '('", 11),
        ("(st=='(' && u4==1", 2, "Too many '('", 0),
        ("st==')' ", 0, "", 0),
        ("( )", 22, "Error", 0),
        ("(())", 22, "Error", 0),
        ("(!)", 1, "Error", 0),
        ("u4==1 && ()", 1, "Error", 0),
        ("(u4==1 &&)", 1, "Error", 0),
        # what may follow a term
        ("(u4==1)(u4==2)", 1, "Too many terms in predicate expression", 7),
        ("u4==1 !u4==2", 1, "Too many terms in predicate expression", 6),
        ("u4==1 !", 1, "Too many terms in predicate expression", 6),
        ("u4==1 &", 1, "Too many terms in predicate expression", 6),
        ("u4==1 &&|| u4==2", 1, "Error", 0),
        # the second term's positions count from one behind its first character too
        ("u4==1 && u4==x", 22, "Invalid value (did you forget quotes)?", 14),
        ("u4==1&&nosuch==1", 22, "Field not found", 14),
        ("(u4==1||u4 ^ 2)", 22, "Invalid operator", 12),
        # not the logical not
        ("!=1", 1, "Error", 0),
        ("!~1", 1, "Error", 0),
        ("! =1", 1, "Error", 0),
        # letters of latin-1 are letters, its no-break space is a blank
        (b"\xe9\xd6u4==1", 22, "Field not found", 5),
        (b"\xd7u4==1", 1, "Error", 0),
        (b"u4\xa0==\xa0\xa01", 0, "", 0),
        (b"u4==1\xe9", 22, "Illegal integer value", 5),
        (b"u4==1\xa0\xa0", 0, "", 0),
        # numbers
        ("u4==08", 22, "Illegal integer value", 5),
        ("s8==-0x8000000000000000", 0, "", 0),
        ("s8==-0x8000000000000001", 22, "Illegal integer value", 5),
        ("s8==-0", 0, "", 0),
        ("u8==-0", 22, "Illegal integer value", 5),
        ("u4==-1234567890123456789012", 22, "Illegal integer value", 5),
        ("u4==-12345678901234567890123", 22, "Operand too long", 29),
        # order of the checks
        ("st<1", 22, "Expecting string field", 4),
        ("st~1", 22, "Expecting string field", 4),
        ("u4<'1'", 22, "Illegal operation for field type", 4),
        ("nosuch.ustring==1", 22, "Field not found", 7),
        ("u4.ustring.ustring==1", 22, "Invalid operator", 11),
        ("u4.ustring == 1", 0, "", 0),
        ("u4 .ustring == 1", 22, "Invalid operator", 4),
        # a field's name may begin with a digit for the parser
        ("4u==1", 22, "Field not found", 3),
        ("u4==1 && 4u==1", 22, "Field not found", 12),
        # text behind a NUL is not there
        (b"u4==1\0 junk", 0, "", 0),
        (b"\0u4==1", 22, "Error", 0),
        # a trailing operator: as if absent, unless an || waits for its right side
        ("u4==1 ||", 0, "", 0),
        ("u4==1 && u1==1 ||", 0, "", 0),
        ("u4==1 || u1==1 ||", 0, "", 0),
        ("(u4==1 || u1==1) &&", 0, "", 0),
        ("u4==1 && !!", 0, "", 0),
        ("u4==1 || u1==1 &&", 22, "Error", 0),
    ],
)
def test_verdict_of_6_1(text: str | bytes, number: int, message: str, column: int) -> None:
    if number == 0:
        assert isinstance(compile_filter(text, OBSERVED_FIELDS, gates=OLD), Predicate)
    else:
        assert verdict(text) == (number, message, column)


@pytest.mark.parametrize(
    ("text", "number", "message", "column"),
    [
        ("u4==1 ||", 22, "Meaningless filter expression", 8),
        ("u4==1 && !", 22, "Meaningless filter expression", 10),
        ("u4==1 || u1==1 &&", 22, "Meaningless filter expression", 17),
        ("!", 22, "No filter found", 1),
        # .function wants a long, == or !=, and takes everything up to the next blank
        ("u4.function==vfs_read", 22, "Illegal operation for field type", 14),
        ("comm.function==vfs_read", 22, "Illegal operation for field type", 16),
        ("u8.function~vfs_read", 22, "Invalid operator", 13),
        ("u8.function==vfs_read&&u4==1", 22, "Function not found", 29),
        ("(u8.function==vfs_read)", 22, "Function not found", 24),
        ("(u8.function==vfs_read )", 0, "", 0),
        ("u8.ustring.function==vfs_read", 0, "", 0),
        ("u8.function.ustring==vfs_read", 22, "Invalid operator", 12),
        ("u8.function==0xffffffff81310010", 0, "", 0),
        ("u8.function==12ab", 22, "Invalid value (did you forget quotes)?", 18),
        ("u8.function==0x00000000000000000000001", 22, "Operand too long", 39),
        ("u8.function==", 22, "Function not found", 14),
        # CPUS{}
        ("CPU == CPUS{9}", 22, "Invalid cpulist", 14),
        ("CPU == CPUS {0}", 22, "Missing '{'", 13),
        ("CPU == CPUS{0} && CPU == CPUS{", 22, "Missing '}'", 31),
        ("CPU == CPUS{0", 22, "Missing '}'", 14),
        ("CPU ~ CPUS{0}", 22, "Illegal operation for field type", 7),
        ("comm == CPUS{0}", 22, "Illegal operation for field type", 9),
        ("stacktrace == CPUS{0}", 22, "Illegal operation for field type", 15),
        ("CPU == CPUS{0}x", 1, "Too many terms in predicate expression", 14),
        ("CPU == CPUS{ }", 0, "", 0),
        ("CPU == CPUS{N}", 0, "", 0),
        ("CPU == CPUS{ALL}", 0, "", 0),
        # the stack is no string, and a number without a size
        ("stacktrace=='x'", 22, "Expecting numeric field", 13),
        ("stacktrace==-1", 22, "Illegal integer value", 13),
    ],
)
def test_verdict_of_6_12(text: str, number: int, message: str, column: int) -> None:
    if number == 0:
        compiled = compile_filter(text, OBSERVED_FIELDS, gates=NEW, cpus=4, function_range=function_range)
        assert isinstance(compiled, Predicate)
    else:
        assert verdict(text, NEW) == (number, message, column)


def wrong_at_the_end(length: int) -> str:
    return "u4==1 ||" + " " * (length - 13) + "u4==x"


def test_message_that_does_not_fit_is_left_out() -> None:
    message = "parse_error: Invalid value (did you forget quotes)?"
    for gates, whole, no_message, no_caret in ((OLD, 2000, 2030, 2100), (NEW, 4030, 4060, 4090)):
        text = wrong_at_the_end(whole)
        assert refusal(text, gates).readback.decode() == f"{text}\n{' ' * whole}^\n{message}\n\n"
        text = wrong_at_the_end(no_message)
        assert refusal(text, gates).readback.decode() == f"{text}\n{' ' * no_message}^\n"
        text = wrong_at_the_end(no_caret)
        assert refusal(text, gates).readback.decode() == f"{text}\n"


# ---- matching --------------------------------------------------------------------------------------------------

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
        # a pointer nobody can read behind: false, and != too
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


def test_string_behind_a_pointer() -> None:
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
    def at(text: str, address: int) -> bool:
        data = struct.pack("<8xQ", address) + bytes(80)
        return compile_filter(text, OBSERVED_FIELDS, gates=NEW, function_range=function_range).match(
            data, cpu=0, comm=b"x"
        )

    start, end = FUNCTIONS["vfs_read"]
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


WORDS = "u4 st s8 == != ~ & && || ! ( ) 'a*' \" ' 1 -5 0x1f CPU CPUS{0-1} CPUS{ } .ustring .function vfs_read comm"
PIECES = st.sampled_from([*WORDS.split(), "stacktrace", "x", " ", "\n", "\0", "\xa0"])


@given(st.one_of(st.binary(max_size=60), st.lists(PIECES, max_size=15).map("".join)), st.sampled_from(list(VERSIONS)))
def test_any_text_compiles_or_is_refused(text: str | bytes, series: str) -> None:
    gates = filter_gates(VERSIONS[series])

    def attempt(text: str | bytes) -> Predicate | FilterRefused:
        try:
            return compile_filter(text, OBSERVED_FIELDS, gates=gates, cpus=2, function_range=lambda place: (0, 1))
        except FilterRefused as refused:
            return refused

    first = attempt(text)
    if isinstance(first, FilterRefused):
        assert first.errno in (1, 2, 3, 22)
        assert first.readback.startswith(first.command.encode("latin-1") + b"\n")
        assert 0 <= first.log_position <= len(first.command) + 2
        again = attempt(first.command.encode("latin-1"))
        assert isinstance(again, FilterRefused)
        assert (again.readback, again.log_position) == (first.readback, first.log_position)
    else:
        assert isinstance(first.match(bytes(100), cpu=0, comm=b""), bool)
        again = attempt(first.text.encode("latin-1"))
        assert isinstance(again, Predicate)
        assert again.text == first.text


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
