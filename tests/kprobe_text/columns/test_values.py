"""The tables hold what `kprobe_text.text.Parser` gives, every record and value, on both ways: compiled and not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kprobe_text.columns import Reading, text_scan
from kprobe_text.columns.compiled_pass import CompiledPass
from kprobe_text.columns.merge import merged
from kprobe_text.columns.rows import stem
from kprobe_text.text import (
    FAULT,
    Bare,
    BufferStarted,
    CodeAddress,
    Event,
    Lost,
    Marker,
    Parser,
    RawMarker,
    Record,
    StackTrace,
    Unparsed,
)

TRACES = Path(__file__).parents[3] / "fixtures" / "text"
CONTEXT = ("task", "pid", "tgid", "cpu", "flags", "timestamp", "clock")


def formats_of(path: Path) -> dict[str, str] | None:
    if not path.exists():
        return None
    texts = path.read_bytes().decode("latin-1").split("== events/")[1:]
    return {text.partition("\n")[0].split("/")[1]: text.partition("\n")[2] for text in texts}


def tables_of(text: bytes, piece: int = 1 << 16, **options: Any) -> dict[str, pa.Table]:
    options.setdefault("compiled", True)
    pieces = [text[at : at + piece] for at in range(0, len(text), piece)]
    found: dict[str, list[pa.Table]] = {}
    for tables in Reading(**options).tables(pieces):
        for name, table in tables.items():
            found.setdefault(name, []).append(table)
    return {name: merged(tables) for name, tables in found.items()}


def utf8(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def value(read: Any) -> Any:
    if isinstance(read, (CodeAddress, str)):
        return utf8(str(read))
    if isinstance(read, tuple):
        return [value(part) for part in read]
    return None if read is FAULT else read


def same(read: Any, held: Any, kind: pa.DataType) -> bool:
    """Say whether a column holds a value; in a column of text numbers are decimal (0x for places), arrays JSON."""
    expected = value(read)
    if isinstance(held, Decimal):
        held = int(held)
    if pa.types.is_string(kind) and isinstance(expected, int):
        return held in (str(expected), hex(expected))
    if pa.types.is_string(kind) and isinstance(expected, list):
        return bool(json.loads(held) == expected)
    if isinstance(expected, list) and isinstance(held, list):
        return [str(one) for one in expected] == [str(one) for one in held]
    return bool(expected == held and type(expected) is type(held))


def place(read: CodeAddress | None) -> str | None:
    return None if read is None else utf8(read.text)


def check(text: bytes, piece: int = 1 << 16, **options: Any) -> None:
    tables = tables_of(text, piece, **options)
    rows = {name: iter(table.to_pylist()) for name, table in tables.items()}
    offset = 0
    parser = Parser(options.get("formats"), definitions=options.get("definitions", ()))
    for record in parser.feed(text) + parser.close():  # not as `parse`, which asks the header what is forged
        compare(record, offset, tables, rows)
        offset += len(record.raw)
    assert offset == len(text)
    assert [name for name, rest in rows.items() if next(rest, None) is not None] == []


def compare(record: Record, offset: int, tables: dict[str, pa.Table], rows: dict[str, Any]) -> None:
    name = table_of(record)
    row = next(rows[name])
    assert row["offset"] == offset
    if name == "_others":
        held = json.loads(row["json"])
        assert row["type"] == type(record).__name__.lower()
        assert held.keys() == record._asdict().keys()
        assert held["raw"].encode("utf-8", "surrogateescape") == record.raw
        assert all(held[name] == read for name, read in record._asdict().items() if type(read) in (int, str))
        return
    if isinstance(record, (Event, Bare)):
        compare_event(record, row, tables[name].schema)
    elif isinstance(record, StackTrace):
        assert (row["frames"], row["user"]) == ([utf8(frame.text) for frame in record.frames], record.user)
    elif isinstance(record, Unparsed):
        assert row["raw"] == record.raw
    elif isinstance(record, Lost):
        assert (row["type"], row["cpu"], row["count"]) == ("lost", record.cpu, record.count)
    elif isinstance(record, Marker):
        assert row["text"] == utf8(record.text)
    elif isinstance(record, RawMarker):
        assert (row["identifier"], row["data"]) == (record.identifier, record.data)
    if "forgeable" in row:
        assert row["forgeable"] == getattr(record, "forgeable", False)
    if "task" in row and not isinstance(record, Bare):
        held = [row[column] for column in CONTEXT]
        read = [getattr(record, column) for column in CONTEXT]
        assert held == [utf8(one) if isinstance(one, str) else one for one in read]


def compare_event(record: Event | Bare, row: dict[str, Any], schema: pa.Schema) -> None:
    for field, read in record.fields.items():
        assert same(read, row["arg_" + field], schema.field("arg_" + field).type), (record, field, row)
    others = {key for key in row if key.startswith("arg_")} - {"arg_" + field for field in record.fields}
    assert [key for key in others if row[key] is not None] == []
    assert (row["address"], row["caller"]) == (place(record.address), place(record.caller))
    assert (row["complete"], row["guessed"]) == (record.complete, sorted(record.guessed))
    is_utf8 = utf8(record.raw.decode("utf-8", "surrogateescape")) == record.raw.decode("utf-8", "surrogateescape")
    assert row["raw"] == (None if record.complete and is_utf8 else record.raw)


def table_of(record: Record) -> str:
    if isinstance(record, (Event, Bare)):
        if max(record.pid or 0, record.timestamp or 0, getattr(record, "tgid", 0) or 0) >= 1 << 63:
            return "_others"
        return stem(record.name)
    if isinstance(record, (Lost, BufferStarted)):
        return "_lost"
    if isinstance(record, (Marker, RawMarker)):
        return "_markers"
    known = {StackTrace: "_stacks", Unparsed: "_unparsed"}
    return known.get(type(record), "_others")


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [True, False])
def test_all_recorded_traces(compiled: bool) -> None:
    count = 0
    for path in sorted(TRACES.glob("*/*.trace*")):
        check(path.read_bytes(), compiled=compiled)
        count += 1
    assert count == 452


@pytest.mark.parametrize("series", ["3.2", "3.13", "4.4", "4.19", "5.10", "6.1", "6.12", "7.2"])
def test_recorded_traces_with_formats_and_definitions(series: str) -> None:
    home = TRACES / series
    formats, text = formats_of(home / "01_types.formats"), (home / "01_types.trace").read_bytes()
    assert formats
    check(text, formats=formats)
    check(text * 3, formats=formats)
    definitions = (home / "01_types.kprobe_events").read_text().splitlines()
    check(text * 3, definitions=definitions)


def test_types_by_the_format() -> None:
    home = TRACES / "6.12"
    formats, text = formats_of(home / "01_types.formats"), (home / "01_types.trace").read_bytes()
    tables = tables_of(text, formats=formats)
    kinds = {
        name: str(table.schema.field(column).type)
        for name, table in tables.items()
        for column in table.schema.names
        if column.startswith("arg_") and name in ("t_u8", "t_s16", "t_x32", "t_u64", "t_char", "t_sym", "t_arr")
    }
    assert kinds["t_u8"] == "uint8"
    assert kinds["t_s16"] == "int16"
    assert kinds["t_x32"] == "uint32"
    assert kinds["t_u64"] == "uint64"
    assert kinds["t_sym"] == "string"


HEADS = st.sampled_from(
    [
        b"            bash-42      [001] .....    11.791146: e: (f+0x0/0x190)",
        b"            bash-42      [001] d..1. 1764191146.791146: e: (f+0x0/0x190)",
        b"            bash-42    [001] ....    11.791146: e: (f+0x0/0x190)",
        b"            bash-42    [001] ....    11.791146: k: (f+0x1/0x190)",
        b"      my-[0] tas-4242424 [001] .....    11.791146: e: (g+0x5/0x9 <- f)",
        b"            bash-42      (-------) [001] .....    11.791146: e: (f+0x0/0x190)",
        b"            bash-42      (     17) [001] .....    11.791146: e: (f+0x0/0x190)",
        b"            bash-42      [001] 12345.678901: e: (f+0x0/0x190)",
        b"            bash-42      [001] 12345.678901: 17.123456: e: (f+0x0/0x190)",
        b"            b\xc3\xa4h-42      [001] .....    11.791146: e: (f+0x0/0x190)",
        b"            b\xffsh-42      [001] .....    11.791146: e: (f+0x0/0x190)",
        b"            bash-42      [001] .....    11.791146: e: (ffffffff813485a0)",
    ]
)
VALUES = [
    b"", b" a=1", b" a=0x1", b" a=-5", b" a=18446744073709551516", b" a=9223372036854775807", b" a=0xffffffffffffff9c",
    b" a=99999999999999999999", b" a=9c", b" a=01", b" a=(fault)", b' a="x"', b' a=""', b' a="x=y"', b' a="x" b="y"',
    b' a="x" b=1', b' a="x" b=1 c="z"', b' a="\xff"', b' a="\xc3\xa4"', b' a="x"y" b=1', b" a={1,2}", b" a={0x1,-5}",
    b" a={0xffffffffffffffff,1}", b' a={"x","y"}', b" a={}", b" a='c'", b" a=f+0x1/0x2", b" a=f+0x1/0x2 [m] b=2",
    b" a=f", b" a=1 junk", b" a=1 a=2", b" b=1 a=2", b' a="x\ny"', b' a="', b"\r", b" a=1\r", b" a=1,2",
    b" flags=1 pid=2",
]  # fmt: skip
LINES = st.one_of(
    st.tuples(HEADS, st.sampled_from(VALUES)).map(lambda both: both[0] + both[1] + b"\n"),
    st.sampled_from(
        [
            b"            bash-42      [001] .....    11.791146: <stack trace>\n => f+0x1/0x2\n => g\n",
            b"CPU:1 [LOST 5 EVENTS]\n", b"# tracer: nop\n", b"#\n", b"\n", b"odd\n", b" => f\n",
            b"            bash-42      [001] .....    11.791146: tracing_mark_write: hello\n",
            b"            bash-42      [001] .....    11.791146: sched_switch: prev_comm=a b ==> next_pid=2\n",
        ]
    ),
)  # fmt: skip
TEXTS = st.lists(LINES, max_size=14).map(lambda lines: b"".join(lines))
TITLES = [
    b"<stack trace>",
    b"<user stack trace>",
    b"<stack trace> ",
    b"<user stack trace>\r",
    b"<stack trace> => f",
    b"",
]
FRAMES = [
    b" => f+0x1/0x2\n", b" => g\n", b" => g [m] <ffffffff81000000>\n", b" =>  g\n", b" => \n", b" =>\n", b" => g \n",
    b" => g\r\n", b" => \xc3\xa4\n", b" => f => g\n", b"=> f => g\n", b"=> f =>  g => => h\n", b" => f\tg\n", b"\n",
    b" => 0123456789ab-42      [001] .....    11.791146: e: (f+0x0/0x190)\n",
]  # fmt: skip
STACK_HEADS = HEADS.map(lambda head: head[: head.index(b": ") + 2])
STACKS = st.builds(
    lambda head, title, frames: head + title + b"\n" * (not frames or frames[0][:1] == b" ") + b"".join(frames),
    STACK_HEADS,
    st.sampled_from(TITLES),
    st.lists(st.sampled_from(FRAMES), max_size=4),
)
SCHEMAS: list[dict[str, Any]] = [
    {},
    {"definitions": ["p:e f a=+0(%si):string b=%di:u8"]},
    {"definitions": ["p:e f a=%di:u8", "p:k f a=%si:x64[2]"]},
    {"definitions": ["p:e f a=%di:s64"]},
]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(TEXTS, st.sampled_from(SCHEMAS), st.integers(20, 700), st.integers(1, 3))
def test_any_text(text: bytes, schema: dict[str, Any], piece: int, times: int) -> None:
    check(text * times, piece, **schema)


def test_a_place_whose_arguments_turn_out_to_be_others() -> None:
    """What was read before that keeps its values."""
    head = b"            bash-42      [001] .....    11.791146: "
    event = head + b"e: (f+0x0/0x190)"
    check((head + b"<stack trace>\n => f+0x1/0x2\n" + event + b"\n" + (event + b" a=1\n") * 2) * 3)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(STACKS, STACKS, LINES), max_size=10).map(b"".join), st.integers(20, 700), st.integers(1, 3))
def test_any_stacks(text: bytes, piece: int, times: int) -> None:
    check(text * times, piece)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(LINES, st.binary(max_size=40)), max_size=12).map(b"".join), st.integers(1, 90))
def test_any_bytes(text: bytes, piece: int) -> None:
    check(text, piece)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Return how many records of each kind the compiled pass has read."""
    found: Counter[int] = Counter()
    tables = CompiledPass.tables

    def counted(self: CompiledPass, rows: Any, *others: Any) -> Any:
        found.update(self._lines[rows, 1].tolist())
        return tables(self, rows, *others)

    monkeypatch.setattr(CompiledPass, "tables", counted)
    return found


def test_the_compiled_pass_reads_what_is_plain(taken: Counter[int]) -> None:
    """Or the tests above would say nothing of it."""
    head = b"            bash-42      [001] .....    11.791146: e: (f+0x0/0x190)"
    bodies: Iterable[bytes] = (b' a="x" b=-1', b" a=(fault) b=0x5", b' a="" b=7', b' a="/etc/x y" b=-0')
    text = b"".join(head + body + b"\n" for body in bodies) * 500
    check(text)
    # of the first line, which is learned from, and of the last, which no line follows, nothing can be said
    assert 1900 < taken[text_scan.EVENT] < 2000


def test_the_compiled_pass_reads_stacks(taken: Counter[int]) -> None:
    head = b"            bash-42      [001] .....    11.791146: "
    event = head + b"e: (f+0x0/0x190) a=1\n"
    kinds = (
        b"<stack trace>\n => f+0x1/0x2\n => g [m]\n",
        b"<user stack trace>\n => libc.so[+0x1234]\n",
        b"<stack trace>\nCPU:1 [LOST 5 EVENTS]\n",
        b"<user stack trace> => f+0x1/0x2 => g\n",
        b"=> f+0x1/0x2 => 0xffffffffc02010de\n",
    )
    text = event * 2 + b"".join(head + kind for kind in kinds) * 200
    check(text)
    tables = tables_of(text)
    assert tables["_stacks"].slice(495, 5).select(["user", "frames"]).to_pylist() == [
        {"user": False, "frames": ["f+0x1/0x2", "g [m]"]},
        {"user": True, "frames": ["libc.so[+0x1234]"]},
        {"user": False, "frames": []},
        {"user": True, "frames": ["f+0x1/0x2", "g"]},
        {"user": False, "frames": ["f+0x1/0x2", "0xffffffffc02010de"]},
    ]
    # one in a line that follows a stack with a lost note is given out at once, by what reads that
    assert (taken[text_scan.STACK], taken[text_scan.SHORT_STACK]) == (2 * 600, 2 * 199)


def test_what_a_string_may_have_written_is_marked() -> None:
    """All that begins within 8,192 bytes of a record with a string, and that record; not if a seal is behind it."""
    number = b"             cat-1       [000] .....     1.000000: n: (f+0x0/0x10) a=1\n"
    string = b'             cat-1       [000] .....     1.000000: s: (f+0x0/0x10) s="x" seal=0x5eed1e55\n'
    text = number * 100 + string + number * 200
    found = tables_of(text)
    offsets = found["n"]["offset"].to_pylist()
    assert (len(number), len(string), offsets[100]) == (71, 89, 7189)
    # from 7,100 + 89 + 8,192 on there are none
    assert found["n"]["forgeable"].to_pylist() == [False] * 100 + [True] * 116 + [False] * 84
    assert found["s"]["forgeable"].to_pylist() == [True]
    sealed = tables_of(text, definitions=[r"p:s f s=+0(%di):string seal=\0x5eed1e55:x64"])
    assert [sealed[name]["forgeable"].to_pylist() for name in "sn"] == [[False], [False] * 300]


@pytest.mark.parametrize("has_format", [False, True])
def test_the_compiled_pass_looks_at_the_seal_of_each_record(has_format: bool) -> None:
    """It took any number for it, and a record that the kernel broke off with the next one behind it for one."""
    form = 'name: s\nID: 1\nformat:\n\nprint fmt: "(%lx) s=\\"%s\\" n=%d t=\\"%s\\" seal=0x%Lx", REC->__probe_ip\n'
    known: dict[str, Any] = {
        "definitions": [r"p:s f s=+0(%di):string n=%si:s32 t=+0(%dx):string seal=\0x5eed1e55:x64"],
        "formats": {"s": form} if has_format else None,
    }
    head = b"             cat-1       [000] .....     1.000000: s: (f+0x0/0x10) "
    whole = head + b's="x" n=1 t="y" seal=0x5eed1e55\n'
    other = head + b's="x" n=1 t="y" seal=0x5eed1e56\n'
    broken = head + b's="x" n=1 t="y" n=2 t=' + whole
    text = (whole * 1000 + other + whole * 200 + broken + whole * 200) * 4
    assert len(whole) == 99
    # another number is a string's, which goes on to the end of the next record
    marks = [False] * 1000 + [True] * 84 + [False] * 116 + [True] * 84 + [False] * 117
    taken: Counter[int] = Counter()
    scan = CompiledPass.scan
    with pytest.MonkeyPatch.context() as patch:

        def counted(self: CompiledPass, *words: Any) -> tuple[Any, Any, int]:
            found = scan(self, *words)
            taken["good"] += int(found[1].sum())
            return found

        patch.setattr(CompiledPass, "scan", counted)
        table = tables_of(text, **known)["s"]
    assert table["forgeable"].to_pylist() == marks * 4
    assert taken["good"] > 5000
    assert tables_of(text, compiled=False, **known)["s"]["forgeable"].to_pylist() == marks * 4
