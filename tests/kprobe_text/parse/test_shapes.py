"""Any text in each format: as many lines or rows as there are records, whose bytes are those of the text."""

import csv
import io
import json
from pathlib import Path

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from kprobe_text.figures.shape import COLUMNS, SHAPES
from kprobe_text.text import Header, Parser, parse

ROOT = Path(__file__).parents[3]
HEAD = b"            b\xffsh-42      [001] .....    11.791146: "
PARTS = st.one_of(
    st.sampled_from(
        [
            HEAD + b'e: (f+0x0/0x1) s="a\nb" n=1\n', HEAD + b"e: (f+0x0/0x1) n=1\n", HEAD + b"<stack trace>\n => f\n",
            HEAD + b"e: (f+0x0/0x1) s=", b'"', b"\n", b"\r\n", b",", b"# tracer: nop\n", b"CPU:1 [LOST 5 EVENTS]\n",
            HEAD + b"tracing_mark_write: two\nlines\n", b"odd\n", b"\xff\x00\x1b[2J", "\u2028ü".encode(),
        ]
    ),
    st.binary(max_size=30),
)  # fmt: skip


@given(st.lists(PARTS, max_size=12).map(b"".join), st.lists(st.integers(1, 80), min_size=1, max_size=8))
def test_every_byte_and_every_record_in_each_format(text: bytes, sizes: list[int]) -> None:
    parser, records, position, turn = Parser(), [], 0, 0
    while position < len(text):
        records += parser.feed(text[position : position + sizes[turn % len(sizes)]])
        position += sizes[turn % len(sizes)]
        turn += 1
    records += parser.close()
    assert sum(len(record.raw) for record in records) == len(text)
    assert b"".join(record.raw for record in records) == text
    for shape in ("text", "ndjson"):
        lines = [SHAPES[shape](record, "") for record in records]
        assert all(line.endswith("\n") and line.count("\n") == 1 for line in lines)
        assert "".join(lines).encode("utf-8", "surrogateescape").count(b"\n") == len(records)
    for record in records:
        shown = json.loads(SHAPES["ndjson"](record, ""))
        # what wasn't understood is there as it was
        assert "raw" not in shown or shown["raw"].encode("utf-8", "surrogateescape") == record.raw
        assert "raw" in shown or shown["type"] != "unparsed"
    rows = list(csv.reader(io.StringIO("".join(SHAPES["csv"](record, "x") for record in records), newline="")))
    assert [len(row) for row in rows] == [len(COLUMNS)] * len(records)


def test_records_of_every_kind_are_as_the_documented_schema_says() -> None:
    """It knew neither the key `file` nor records without a context, nor those of function_graph."""
    schema = jsonschema.Draft202012Validator(
        json.loads((ROOT / "docs" / "reference" / "json.schema.json").read_text("utf-8"))
    )
    traces = [
        *(ROOT / "fixtures" / "text" / "6.12").glob("*.trace*"),
        *(ROOT / "fixtures" / "dat").glob("6.1/*.report"),
    ]
    traces += (ROOT / "fixtures" / "scenarios").glob("*/*nocontext-info.trace")
    kinds: dict[str, int] = {}
    for trace in sorted(traces):
        for record in parse(trace.read_bytes()):
            kind = type(record).__name__
            kinds[kind] = kinds.get(kind, 0) + 1
            if not isinstance(record, Header) and kinds[kind] <= 10:
                for label in ("", "a file"):
                    schema.validate(json.loads(SHAPES["ndjson"](record, label)))
    assert {"Event", "Bare", "StackTrace", "BareStack", "Call", "Coded", "Function", "Marker", "BareMarker", "Lost"} < {
        *kinds
    }
