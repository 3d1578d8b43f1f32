"""Filters, held to what kernels answered: fixtures/filters.

SERIES.jsonl: 189 filters written to the event of SERIES.format on a machine of two CPUs while a program called "rec"
opened ten files: errno, the text of the `filter` file afterwards, the entry of error_log, and the paths of the records
that passed.  observed.jsonl: 224 filters on another event and one CPU.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprobe_sim.builds.gates import FilterGates, filter_gates
from kprobe_sim.language.filters.errors import LOG_LOCATION
from kprobe_sim.language.filters.filter_file import FilterState, write_filter
from kprobe_sim.language.filters.predicate import FilterRefused, Predicate, compile_filter
from kprobe_sim.language.filters.predicate_term import FilterContext
from kprobe_sim.language.primitives.errlog import ErrorLog
from kprobe_sim.records.field import Field

FIXTURES = Path(__file__).parents[2] / "fixtures" / "filters"
VERSIONS = {
    "3.2": (3, 2, 4),
    "3.13": (3, 13, 10),
    "4.4": (4, 4, 11),
    "4.9": (4, 9, 229),
    "4.14": (4, 14, 67),
    "4.19": (4, 19, 108),
    "4.19.108": (4, 19, 108),  # another build, a guest
    "5.4": (5, 4, 273),
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


def outcome(row: Row, fields: list[Field], context: FilterContext) -> tuple[int, str, FilterState]:
    """Return errno, the text of the file and the new state (the old one when nothing changed)."""
    try:
        state = write_filter(row["input"].encode("latin-1"), fields, context)
    except OSError as refused:
        return refused.errno or 0, "none\n", FilterState()
    return (state.refused.errno if state.refused else 0), state.shown.decode("latin-1"), state


# ---- the recorded event and its records ------------------------------------------------------------------------

EMPTY = ("3.2", "3.13", "4.4", "4.9", "4.14", "4.19", "4.19.108", "5.4", "7.2")  # an empty path is a string there
SMALL = ("5.4", "5.10")  # the log keeps 256 bytes of a command, and its column in a byte
SERIES = [series for series in VERSIONS if series != "7.3"]


def recorded(series: str) -> list[tuple[str, Row]]:
    return [(f"{row['n']} {row['input']!r}", row) for row in rows(f"{series}.jsonl")]


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
        "common_flags": int(VERSIONS[series] < (4, 18, 0)),  # interrupts are off at a probe
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
    path_bytes = path.encode() + b"\0" if path or series in EMPTY else b""
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


@pytest.mark.parametrize("series", SERIES)
def test_recorded_answer(every: Any, series: str) -> None:
    fields = fields_of((FIXTURES / f"{series}.format").read_text())
    context = FilterContext(filter_gates(VERSIONS[series]), cpus=2, function_range=function_range)

    def check(row: Row) -> None:
        number, text, state = outcome(row, fields, context)

        assert (number, text) == (row["errno"], row["readback"])
        if VERSIONS[series] < (5, 0, 0):  # no error_log yet
            return
        log = ErrorLog(lambda: 0, command_size=256 if series in SMALL else None)
        if state.refused:
            refused = state.refused
            column = refused.log_position & (0xFF if series in SMALL else 0xFFFF)
            log.log(LOG_LOCATION, refused.log_message, refused.command, column)
        assert log.text().decode("latin-1") == (f"[    0.000000] {row['log']}" if "log" in row else "")

    every(recorded(series), check, of=189)


@pytest.mark.parametrize(
    ("series", "count"),
    [
        ("3.2", 89),
        ("3.13", 95),
        ("4.4", 104),
        ("4.9", 108),
        ("4.14", 110),
        ("4.19", 104),
        ("4.19.108", 104),
        ("5.4", 104),
        ("5.10", 107),
        ("6.1", 107),
        ("6.12", 111),
        ("7.2", 112),
    ],
)
def test_recorded_matches(every: Any, series: str, count: int) -> None:
    fields = fields_of((FIXTURES / f"{series}.format").read_text())
    context = FilterContext(filter_gates(VERSIONS[series]), cpus=2, function_range=function_range)

    def check(row: Row) -> None:
        state = write_filter(row["input"].encode("latin-1"), fields, context)

        def passed(cpu: int) -> list[str]:
            return [
                path or ("" if series in EMPTY else "(fault)")
                for path, dfd, flags in CALLS
                if state.predicate is None
                or state.predicate.match(entry(fields, series, path, dfd, flags), cpu=cpu, comm=b"rec")
            ]

        if re.search("cpu|CPU", row["input"]) and "CPU < 2" not in row["input"]:
            # All ten calls ran on one CPU, which one isn't recorded.
            assert row["matched"] in (passed(cpu=0), passed(cpu=1))
        else:
            assert passed(cpu=0) == row["matched"]

    every([case for case in recorded(series) if "matched" in case[1]], check, of=count)


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


@pytest.mark.parametrize("series", ["5.10", "6.1", "6.12", "7.2", "7.3"])
def test_observed_answer(every: Any, series: str) -> None:
    context = FilterContext(filter_gates(VERSIONS[series]), cpus=1, function_range=function_range)

    def check(row: Row) -> None:
        number, text, state = outcome(row, OBSERVED_FIELDS, context)

        assert number == row["errno"]
        if "readback" in row:
            assert text == row["readback"]
        assert (state.refused.log_message if state.refused else None) == row.get("message")
        if "column" in row:
            assert state.refused is not None
            assert state.refused.log_position == row["column"]

    found = [row for row in rows("observed.jsonl") if series in row["series"]]
    every([(f"{at} {row['input']!r}", row) for at, row in enumerate(found)], check, of=201)


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
        # the second term's positions count from one after its first character too
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
        # text after a NUL is not there
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


# ---- any text -------------------------------------------------------------------------------------------------

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
