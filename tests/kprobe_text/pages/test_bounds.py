"""What a trace.dat asks for is bounded: the files that took gigabytes are refused with the bound, or take little."""

from __future__ import annotations

import random
import struct
import sys
import zlib
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "tools" / "fuzz"))

import hostile_dat as hostile

from kprobe_text.pages.bounds import CPUS
from kprobe_text.pages.dat.cursor import FileBytes, NotTraceDat
from kprobe_text.pages.dat.file import TraceDat
from kprobe_text.parse.source import NotText, Source
from kprobe_text.text import Event, Unnamed

SEED = 20


def problems(data: bytes) -> list[str]:
    """Read all records of a file and return what is said of it."""
    found = TraceDat(data, "t.dat")
    for _ in found.records():
        pass
    return found.problems


def test_a_format_of_too_many_locations() -> None:
    fields = "".join(hostile.field(f"__data_loc char[] x{i}[262144]", 0, 1048576) for i in range(10))
    data = hostile.version_6([hostile.page(hostile.record(9, bytes(8)), 4096)], formats=[hostile.event(9, fields)])
    assert len(data) < 8192
    assert problems(data) == [
        "t.dat: event 9: its format has 2621440 locations, more than 8192: its records are shown as unnamed, with "
        "their bytes"
    ]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([("u8 a", 8, 1), ("struct x b", 8, 4)], "says that b overlaps another field"),
        ([("u8 common_more", 7, 1)], "says that common_more overlaps another field"),
        ([(f"u8 a{i}", 8 + i, 1) for i in range(1025)], "has 1029 fields, more than 1024"),
        ([(f"char a{i}[]", 8, 0) for i in range(9)], "has 9 fields without a size, more than 8"),
        ([("__data_loc char[] a", 8, 2)], "says that a, a location, has 2 bytes"),
        ([("u8 " + "a" * 257, 8, 1)], "has a name of 257 characters, more than 256: " + "a" * 40),
    ],
)
def test_a_format_that_asks_for_too_much(fields: list[tuple[str, int, int]], said: str) -> None:
    lines = "".join(hostile.field(*one) for one in fields)
    data = hostile.version_6([hostile.page(hostile.record(9, bytes(8)), 4096)], formats=[hostile.event(9, lines)])
    assert said in problems(data)[0]


def test_locations_that_share_their_bytes() -> None:
    fields = "".join(hostile.field(f"__data_loc char[] x{i}", 8 + 4 * i, 4) for i in range(6))
    text = b"x" * 99 + b"\0"
    own = [struct.pack("<6I", *(100 << 16 | 32 + 100 * i for i in range(6))) + text * 6]
    same = struct.pack("<6I", *[600 << 16 | 32] * 6) + text * 6
    data = hostile.version_6(
        [hostile.page(b"".join(hostile.record(9, one) for one in (*own, same)), 4096)],
        formats=[hostile.event(9, fields)],
    )
    first, second = (record for record in TraceDat(data).records() if isinstance(record, Event))
    assert first.fields == {f"x{i}": "x" * 99 for i in range(6)}
    assert first.complete
    assert (second.fields, second.complete) == ({}, False)


def test_instances_that_have_the_same_places() -> None:
    data = hostile.KINDS["places"](64_400, random.Random(SEED))
    with pytest.raises(NotTraceDat, match=r"more than (1024|131072)"):
        TraceDat(data)


@pytest.mark.parametrize("number", [16, 17, 18, 19, 20, 21])
def test_a_section_is_read_once(number: int) -> None:
    out = hostile.Version7()
    body = {16: b"header_page\0" + bytes(8) + b"header_event\0" + bytes(8), 18: bytes(4)}.get(number, bytes(8))
    place = out.section(number, body)
    for _ in range(40):
        out.option(number, struct.pack("<Q", place))
    with pytest.raises(NotTraceDat, match=rf"at byte {place} is there twice"):
        TraceDat(out.done())


@pytest.mark.parametrize(
    ("number", "what"), [(17, "ftrace event formats"), (18, "event formats"), (16, "header info")]
)  # fmt: skip
def test_a_section_that_would_be_very_long(number: int, what: str) -> None:
    out = hostile.Version7()
    at = out.section(number, b"")
    struct.pack_into("<I", out.out, at + 20, 1 << 30)
    out.option(number, struct.pack("<Q", at))
    with pytest.raises(NotTraceDat, match=rf"section {what} at byte {at} has 1073741824 bytes.* more than"):
        TraceDat(out.done())


@pytest.mark.parametrize(("number", "what"), [(19, "kallsyms"), (20, "printk_formats"), (21, "saved_cmdlines")])
def test_what_isnt_needed_is_left_out(number: int, what: str) -> None:
    out = hostile.Version7()
    at = out.section(number, b"")
    struct.pack_into("<I", out.out, at + 20, 1 << 30)
    out.option(number, struct.pack("<Q", at))
    found = problems(out.done())
    assert len(found) == 1
    assert found[0].startswith(f"t.dat: section {what} at byte {at} has 1073741824 bytes")
    assert found[0].endswith(": it is left out")


def test_more_cpus_than_there_are() -> None:
    data = hostile.version_6([b"x"] * (CPUS + 1), page_size=64)
    with pytest.raises(NotTraceDat, match=r"16385 CPUs have data, more than 16384"):
        TraceDat(data)


def test_packed_parts_that_become_too_much() -> None:
    out = hostile.Version7()
    out.header()
    out.buffer([hostile.parts(bytes(4096)), struct.pack("<III", 1, 8, 1 << 28) + bytes(8)], 4096)
    found = problems(out.done())
    assert len(found) == 1
    assert "an unpacked size is 268435456, more than 1048576" in found[0]
    # each part is small, but all of them aren't
    out = hostile.Version7()
    out.header()
    out.buffer([hostile.parts(bytes(1 << 20), 400)], 1 << 20)
    found = problems(out.done())
    assert len(found) == 1
    assert "what is packed would become" in found[0]


def test_a_shift_that_is_no_time() -> None:
    data = hostile.version_6([], options=[(7, b"0x" + b"f" * 40 + b"\0")])
    with pytest.raises(NotTraceDat, match="has no room in 64 bits"):
        TraceDat(data)


def test_gzip_that_becomes_too_much(tmp_path: Path) -> None:
    path = tmp_path / "t.dat.gz"
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    with path.open("wb") as file:
        file.write(packer.compress(hostile.version_6()))
        for _ in range(48):
            file.write(packer.compress(bytes(1 << 20)))
        file.write(packer.flush())
    source = Source(str(path))
    with pytest.raises(NotText, match="it may be 256 times as long, and 16777216 bytes besides"):
        source.trace_dat()
    source.close()


def test_a_page_in_parts_is_the_same_records() -> None:
    one = struct.pack("<IHBBi", 2 | 1 << 5, 9, 0, 0, 7)
    pages = b"".join(hostile.filled(one, 4096, 1000 * i) for i in range(3))
    data = hostile.version_6([pages, pages], formats=[hostile.event(9)])
    found = TraceDat(data)
    at_once = [record for record in found.records() if not isinstance(record, Unnamed)]
    reader = found.reader(found.contents.buffers[0])
    for at in range(0, len(pages), 4096):
        whole = reader.read(pages[at : at + 4096], 0)
        for most in (1, 2, 7, 339, 340, 1000):
            parts = list(reader.parts(pages[at : at + 4096], 0, most=most))
            assert [item for part in parts for item in part] == whole
            assert max(map(len, parts)) <= most + 1
    assert len(at_once) == 2 * 3 * 340


@pytest.mark.slow
@pytest.mark.parametrize("count", [2048, 2049])
def test_a_stack_that_is_longer_than_any(count: int) -> None:
    from kprobe_text.columns.dat import tables_of

    fields = hostile.field("int size", 8, 4) + hostile.field("unsigned long caller[]", 16, 0)
    one = hostile.record(3, struct.pack("<II", count, 0) + struct.pack(f"<{count}Q", *range(1, count + 1)))
    size = len(one) + 16
    pages = hostile.page(one, size) * 3
    data = hostile.version_6([pages], events=[hostile.event(3, fields, "kernel_stack")], page_size=size)
    kinds = [type(record).__name__ for record in TraceDat(data).records()]
    assert kinds == (["StackTrace"] * 3 if count == 2048 else ["Event"] * 3)
    for compiled in (False, True):
        rows = {
            name: len(table)
            for tables in tables_of(TraceDat(data), compiled=compiled)
            for name, table in tables.items()
        }
        assert rows == ({"_stacks": 3} if count == 2048 else {"kernel_stack": 3})


def test_a_file_that_becomes_shorter_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.dat"
    pages = hostile.filled(hostile.record(9, b""), 4096) * 100
    path.write_bytes(hostile.version_6([pages], formats=[hostile.event(9)]))
    with path.open("r+b") as file:
        found = TraceDat(FileBytes(file.fileno()))
        records = found.records()
        next(records)
        file.truncate(200_000)
        count = sum(isinstance(record, Event) for record in records)
    assert 1000 < count < 100 * 340


# --- how much memory reading takes, by each way


def _measured(data: bytes, tmp_path: Path, way: str) -> Any:
    path = tmp_path / "t.dat"
    read = hostile.ways().get(way)
    assert read is not None
    path.write_bytes(hostile.version_6())
    empty = hostile.took(read, str(path))
    path.write_bytes(data)
    found = hostile.took(read, str(path))
    return found._replace(memory=found.memory - empty.memory)


@pytest.mark.parametrize("kind", [kind for kind in hostile.KINDS if kind not in ("packed_section", "fields")])
def test_a_hostile_file_takes_little_memory(kind: str, tmp_path: Path) -> None:
    found = _measured(hostile.KINDS[kind](50_000, random.Random(SEED)), tmp_path, "records")
    assert found.failed == ""
    assert found.memory < 200 << 20


def test_packed_parts_of_many_cpus_are_not_unpacked_for_each_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 167 CPUs with pages of 64 bytes there were 11,802 unpackings for 60,000 records."""
    data = hostile.hostile(4173).data
    unpacked = []
    new = zlib.decompressobj
    monkeypatch.setattr(zlib, "decompressobj", lambda: unpacked.append(1) or new())
    records = TraceDat(data, "t.dat").records()
    assert sum(1 for _ in islice(records, 60_000)) == 60_000
    assert len(unpacked) < 400
