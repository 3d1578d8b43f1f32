"""Parts of a text read by other processes: what comes of it is what one process gives, whatever the text is."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from kprobe_text.columns import Reading, rows
from kprobe_text.columns import reading as readings
from kprobe_text.columns.merge import merged
from kprobe_text.parse import columnar
from kprobe_text.parse import parts as shared
from kprobe_text.parse.crew import PartReader, readers
from kprobe_text.parse.parts import SharedReading
from kprobe_text.parse.schema import Schema

TRACES = Path(__file__).parents[3] / "fixtures" / "text"
PLAIN = b"            bash-42      [001] .....    11.%06d: e: (f+0x0/0x190) a=%d\n"
# its readers are processes, each of which compiles the pass
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def crew() -> Iterator[list[PartReader]]:
    """Two readers of windows that are small, so that short texts have many parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readings, "WINDOW", 4096)
        patch.setattr(shared, "WINDOW", 4096)
        patch.setattr(shared, "PART", 4096)
        patch.setattr(shared, "_LONGEST", 8192)
        found = readers(lambda file: Reading(file=file, compiled=True), 2)
        yield found
        for reader in found:
            reader.close()


def all_of(found: Iterator[dict[str, pa.Table]]) -> dict[str, list[dict[str, Any]]]:
    tables: dict[str, list[pa.Table]] = {}
    for some in found:
        for name, table in some.items():
            tables.setdefault(name, []).append(table)
    return {name: merged(parts).to_pylist() for name, parts in tables.items()}


def pieces(text: bytes) -> Iterator[bytes]:
    for at in range(0, len(text), 1000):
        yield text[at : at + 1000]


def both(text: bytes, crew: list[PartReader]) -> tuple[Any, Any]:
    alone = all_of(Reading(file="x", compiled=True).tables(pieces(text)))
    return alone, all_of(SharedReading(lambda file: Reading(file=file, compiled=True), crew, "x").tables(pieces(text)))


def plain(count: int) -> bytes:
    return b"".join(PLAIN % (number, number) for number in range(count))


PARTS = (
    plain(30),
    b'            bash-42      [001] .....    12.000000: o: (f+0x0/0x190) s="two\nlines" n=1\n',
    b'            bash-42      [001] .....    12.000001: o: (f+0x0/0x190) s="no end\n',
    b"CPU:1 [LOST 5 EVENTS]\n",
    b"            bash-42      [001] .....    12.000002: <stack trace>\n => f\n => g\n",
    b"            bash-42      [001] .....    12.000003: sys_openat(dfd: ffffff9c, filename: 27ab, flags: 0)\n",
    b"            bash-42      [001] .....    12.000004: e: (f+0x0/0x190) a=-1 b=18446744073709551615 x=0x1f\n",
    b"# tracer: nop\n#\n",
    b"# tracer: function_graph\n#\n 0)   1.000 us    |  f();\n",
    b"    bash-42        1..... 1us : e: (f+0x0/0x190) a=7\n",
    b"nothing\n",
    b"            bash-42      [001] .....    12.000005: tracing_mark_write: hello\n",
    b"            bash-42    [001] ....    12.000006: e: (f+0x0/0x190) a=ff\n",
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(PARTS), min_size=4, max_size=40), st.booleans())
def test_any_text_is_read_as_by_one_process(crew: list[PartReader], parts: list[bytes], ends: bool) -> None:
    text = plain(100) + b"".join(parts)
    alone, together = both(text if ends else text[:-7], crew)
    assert together == alone


@pytest.mark.parametrize("name", ["02_comms", "09_irq", "07_markers", "01_types"])
def test_recorded_texts_are_read_as_by_one_process(crew: list[PartReader], name: str) -> None:
    for path in sorted(TRACES.glob(f"*/{name}*.trace")):
        alone, together = both(path.read_bytes() * 3, crew)
        assert together == alone, path


def test_parts_are_given_away(crew: list[PartReader], monkeypatch: pytest.MonkeyPatch) -> None:
    given_away: list[int] = []
    give = PartReader.give
    monkeypatch.setattr(PartReader, "give", lambda reader, part: given_away.append(part.offset) or give(reader, part))
    text = plain(3000)
    alone, together = both(text, crew)
    assert together == alone
    assert len(given_away) > len(text) / 4096 / 2


def test_more_events_than_have_a_table(crew: list[PartReader]) -> None:
    line = b"            bash-42      [001] .....    11.%06d: e%d: (f+0x0/0x190) a=1\n"
    text = plain(100) + b"".join(line % (number, number % (2 * rows.EVENTS)) for number in range(4 * rows.EVENTS))
    alone, together = both(text, crew)
    assert len(alone) == rows.EVENTS + 1
    assert together == alone


def test_a_reader_that_is_gone(crew: list[PartReader]) -> None:
    one = PartReader(lambda file: Reading(file=file, compiled=True), crew)
    os.kill(one.pid, signal.SIGKILL)
    text = plain(3000)
    alone, together = both(text, [one, crew[0]])
    one.close()
    assert together == alone


@pytest.mark.slow
@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_files_are_those_of_one_process(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Signals:
        received = ()

    monkeypatch.setattr(columnar, "MUCH", 1)
    monkeypatch.setattr(shared, "PART", 1 << 14)
    names = [str(tmp_path / name) for name in ("one.txt", "two.txt")]
    mixed = plain(40) + b"".join(PARTS) + plain(400)
    for name, text in zip(names, (mixed * 30, (TRACES / "6.1" / "02_comms.trace").read_bytes() * 20), strict=True):
        Path(name).write_bytes(text)
    found = []
    for jobs in (1, 3):
        directory = tmp_path / str(jobs)
        assert columnar.write(names, form, str(directory), Schema([]), cast(Any, Signals), jobs=jobs) == 0
        read = parquet.read_table if form == "parquet" else lambda path: pa.ipc.open_file(path).read_all()
        tables = {path.name: read(path) for path in sorted(directory.iterdir())}
        found.append({name: (table.schema, table.to_pylist()) for name, table in tables.items()})
    assert found[0] == found[1]
