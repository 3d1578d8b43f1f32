"""A line of an answer: as the JSON Schema has it, and no other."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kprobe_corpus.parsers.answers import read, record_of
from kprobe_corpus.traces import entries

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads((ROOT / "kprobe_corpus" / "parsers" / "records.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

KEYS = st.sampled_from([*SCHEMA["properties"], "depth"])
FRACTIONS = st.sampled_from([0.5, -1.25])  # 1.0 is a whole number to JSON Schema
LEAVES = st.none() | st.booleans() | st.integers() | FRACTIONS | st.text()
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2))


@given(st.dictionaries(KEYS, VALUES, max_size=3).map(lambda drawn: {"type": "event", **drawn}))
@example({"type": "event", "fields": {"a": [1, None, "x", [2]]}, "guessed": ["a"], "complete": False})
@example({"type": "event", "timestamp": True})
@example({"type": 1})
def test_the_schema_and_the_reader_agree(record: dict[str, Any]) -> None:
    assert (record_of(json.dumps(record).encode())["type"] != "no record") == VALIDATOR.is_valid(record)


def test_each_truth_of_the_corpus_fits_the_schema() -> None:
    found = entries(kernels=["3.2", "7.2"], scenarios=["[01]*"])
    assert len(found) == 87
    for entry in found:
        wrong = [(record, error.message) for record in entry.truth() for error in VALIDATOR.iter_errors(record)]
        assert wrong == [], entry


@pytest.mark.slow
def test_what_kprobe_parse_answers_fits_the_schema(tmp_path: Path) -> None:
    found = entries(kernels=["6.12"], scenarios=["0[1-9]_*"])
    for entry in found:
        (tmp_path / entry.name).write_bytes(entry.text)
    argv = [sys.executable, "-m", "kprobe", "parse", "--format", "ndjson", *sorted(map(str, tmp_path.iterdir()))]
    lines = subprocess.run(argv, capture_output=True, check=True).stdout.splitlines()
    assert len(lines) > 400
    records = [record_of(line) for line in lines]
    assert [(record, error.message) for record in records for error in VALIDATOR.iter_errors(record)] == []
    assert [record for record in records if record["type"] == "no record"] == []


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"[1]", 'it isn\'t an object with a "type"'),
        (b'{"name":"x"}', 'it isn\'t an object with a "type"'),
        (b'{"type":"event","timestamp":1.5}', "'timestamp' isn't a whole number"),
        (
            b'{"type":"event","fields":{"a":1.5}}',
            "'fields' isn't an object whose values are numbers, strings, null or lists",
        ),
        (b'{"type":"event","clock":"local"}', "'clock' isn't one of time, count, elapsed, elapsed count"),
        (b'{"type":"event"', "it isn't JSON in UTF-8 (Expecting"),
        (b'{"type":"event","task":"\xff"}', "it isn't JSON in UTF-8 ('utf-8' codec"),
    ],
)
def test_a_line_that_is_no_record_says_why(line: bytes, why: str) -> None:
    (record,) = read(b"\n" + line + b"\n")
    assert (record["type"], record["line"], record["why"][: len(why)]) == ("no record", 2, why)
