"""trace.dat files of a guest, held to what trace-cmd report says of them; and files that are broken."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprobe_text.pages.dat.compression import ZSTD, unpacker
from kprobe_text.pages.dat.cursor import NotTraceDat
from kprobe_text.pages.dat.file import TraceDat
from kprobe_text.text import FAULT, CodeAddress, Event, Header, Lost, Marker, Parser, Record, StackTrace, Unparsed

ALL = Path(__file__).parents[3] / "fixtures" / "dat"
DATA = ALL / "6.1"
FILES = sorted(ALL.glob("*/*.dat"))
NONE = (DATA / "none7.dat").read_bytes()
PLAIN = (DATA / "plain6.dat").read_bytes()


def records(data: bytes) -> list[Record]:
    """Return a file's records but those without events, after a look at whether all bytes of its pages are in them."""
    found = TraceDat(data)
    read = list(found.records())
    pages = [page for buffer in found.contents.buffers for cpu in buffer.cpus for _, page in found.pages(buffer, cpu)]
    assert sum(len(record.raw) for record in read) == sum(map(len, pages))
    assert found.problems == []
    return [record for record in read if not isinstance(record, Header)]


def as_reported(value: object) -> object:
    """Return a value as trace-cmd prints it: a place without the function's size, what can't be read as empty."""
    if isinstance(value, CodeAddress):
        return f"{value.symbol}+{value.offset:#x}"
    return "" if value is FAULT else value


def of_report(path: Path) -> list[Record]:
    formats = {}
    for _, text in TraceDat(path.read_bytes()).contents.formats:
        assert isinstance(text, bytes)
        formats[text.partition(b"\n")[0].decode().removeprefix("name: ")] = text
    # the columns of a clock that isn't in nanoseconds aren't those of tracefs
    report = re.sub(rb"(\[\d+\]) +(\d+): (?=\w+: {2})", rb"\1  0.\2: ", path.with_suffix(".report").read_bytes())
    report = re.sub(rb"  0\.(\d+):", lambda m: b"  0.%09d:" % int(m[1]), report)
    parser = Parser(formats)
    return [record for record in (*parser.feed(report), *parser.close()) if not isinstance(record, Header)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_record_is_that_of_the_report(path: Path) -> None:
    ours, reported = records(path.read_bytes()), of_report(path)
    assert len(ours) == len(reported) > 10
    for mine, told in zip(ours, reported, strict=True):
        assert type(mine) is type(told)
        if isinstance(mine, Lost) and isinstance(told, Lost):
            assert (mine.cpu, mine.count) == (told.cpu, told.count)
            continue
        assert isinstance(mine, Event | Marker | StackTrace)
        assert isinstance(told, Event | Marker | StackTrace)
        assert (mine.task, mine.pid, mine.cpu, mine.timestamp) == (told.task, told.pid, told.cpu, told.timestamp)
        if isinstance(mine, Event) and isinstance(told, Event):
            assert (mine.name, mine.instance, mine.complete) == (told.name, told.instance, True)
            if mine.address is not None:
                assert told.address is not None
                assert mine.address.address == told.address.address
                assert (mine.caller is None) == (told.caller is None)
                fields = {name: as_reported(value) for name, value in mine.fields.items()}
                if "b" in fields:  # trace-cmd prints an s16 without its sign
                    fields["b"] = int(str(fields["b"])) & 0xFFFF
                if "d" in fields:
                    told = told._replace(fields={**told.fields, "d": str(told.fields["d"])})
                assert fields == told.fields
        elif isinstance(mine, Marker) and isinstance(told, Marker):
            assert mine.text == told.text
        elif isinstance(mine, StackTrace) and isinstance(told, StackTrace):
            # `=> do_sys_openat2 (ffffffff813485a1)`
            shown = [f"{frame.symbol} ({frame.address:x})" for frame in mine.frames]
            assert shown == [frame.text for frame in told.frames]


def test_every_field_of_events_that_arent_probes() -> None:
    lines = [line for line in (DATA / "static7.fields").read_text().splitlines() if ": sched_" in line]
    ours = [record for record in records((DATA / "static7.dat").read_bytes()) if isinstance(record, Event)]
    assert len(ours) == len(lines) == 11
    for mine, line in zip(ours, lines, strict=True):
        name, _, fields = line.partition(": ")[2].partition(":")
        assert name == mine.name
        assert " ".join(f"{field}={value}" for field, value in mine.fields.items()) == fields.strip()


def test_what_is_in_a_file() -> None:
    found = TraceDat(PLAIN).contents
    assert (found.opening, found.compression, found.added) == ((6, "little", 8, 4096), "", 0)
    assert [(buffer.name, buffer.clock, len(buffer.cpus)) for buffer in found.buffers] == [("", "local", 2)]
    assert ("Linux" in found.uname, found.writer, found.notes) == (True, "3.1.6 not-a-git-repo", ())
    assert TraceDat((DATA / "date6.dat").read_bytes()).contents.added == 1795401313032771000
    buffers = TraceDat((DATA / "inst7.dat").read_bytes()).contents.buffers
    assert [(buffer.name, len(buffer.cpus), buffer.is_packed) for buffer in buffers] == [
        ("", 2, True), ("two", 2, True), ("one", 2, True),
    ]  # fmt: skip


def test_counts_arent_nanoseconds() -> None:
    first = records((DATA / "count7.dat").read_bytes())[0]
    assert isinstance(first, Event)
    assert (first.timestamp, first.clock) == (32, "count")


@pytest.mark.parametrize("length", [0, 5, 10, 12, 15, 17, 40, 300, 700, 3000, 15000])
@pytest.mark.parametrize("data", [NONE, PLAIN], ids=["7", "6"])
def test_a_beginning_that_is_cut_off(data: bytes, length: int) -> None:
    with pytest.raises(NotTraceDat, match=r"t\.dat.*(byte \d+: .*(are there|has no end)|it was cut off)"):
        TraceDat(data[:length], "t.dat")


def test_pages_that_are_cut_off() -> None:
    found = TraceDat(PLAIN, "t.dat")
    last = max(cpu.offset for cpu in found.contents.buffers[0].cpus)
    whole = [record for record in found.records() if isinstance(record, Event)]
    cut = TraceDat(PLAIN[: last + 100], "t.dat")
    read = list(cut.records())
    events = [record for record in read if isinstance(record, Event)]
    assert 0 < len(events) < len(whole)
    assert {event.raw for event in events if event.cpu == 0} <= {event.raw for event in whole}
    assert isinstance(next(record for record in read if isinstance(record, Unparsed)), Unparsed)
    assert cut.problems[0] == (
        f"t.dat: it breaks off at byte {last + 100}: CPU 1 has 4096 bytes from byte {last} on, of which 100 are there"
    )
    assert "CPU 1, page at byte 0: a page breaks off after 100 bytes" in cut.problems[1]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b"tracing7\0", b"tracing8\0", "version '8' of trace.dat isn't known: 6 and 7 are"),
        (
            b"tracing7\0\0\x08",
            b"tracing7\0\x02\x08",
            "the order of bytes is 2, which is 0 or 1, and a long has 8 bytes",
        ),
        (b"\0\x10\0\0none\0", b"\x01\0\0\0none\0", "a page of 1 bytes can't be"),
        (b"none\0", b"lzma\0", "it is packed by 'lzma': zlib and zstd can be read"),
        (b"header_page\0", b"header_rage\0", "the mark of header_page should be b'header_page"),
        (b"type_len    :    5", b"type_len    :    6", "a header_event that isn't understood: type_len is 6, not 5"),
        (b"local_t commit", b"local_t commix", "not a header_page: it has no field commit"),
    ],
)
def test_what_cant_be_read_says_why(old: bytes, new: bytes, said: str) -> None:
    assert old in NONE
    with pytest.raises(NotTraceDat) as refusal:
        TraceDat(NONE.replace(old, new), "t.dat")
    assert said in str(refusal.value)


def test_two_cpus_with_the_same_data() -> None:
    found = TraceDat(PLAIN).contents.buffers[0].cpus
    one, two = (struct.pack("<QQ", cpu.offset, cpu.size) for cpu in found)
    with pytest.raises(NotTraceDat, match=r"the data at byte \d+ is also that of another CPU"):
        TraceDat(PLAIN.replace(one + two, two + two))


def test_formats_that_are_missing() -> None:
    """Their events' bytes are kept and marked."""
    without = PLAIN.replace(b"name: myopen\nID: ", b"name: myopen\nIX: ")
    with pytest.raises(NotTraceDat, match="without an ID"):
        TraceDat(without)
    number = re.search(rb"name: myopen\nID: (\d+)", PLAIN)
    assert number is not None
    found = TraceDat(PLAIN.replace(number[0], number[0][: -len(number[1])] + b"9" * len(number[1])), "t.dat")
    kinds = [type(record).__name__ for record in found.records()]
    assert kinds.count("Unnamed") == 19
    assert found.problems == [
        f"t.dat: event {int(number[1])} has no format: its records are shown as unnamed, with their bytes"
    ]


@pytest.mark.parametrize(
    "name",
    ["zlib", *(pytest.param(name, marks=pytest.mark.requires(name, "zstandard")) for name in ZSTD)],
)
def test_what_unpacks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "zlib":
        packed = zlib.compress(b"hello" * 100)
    else:
        import zstandard

        packed = zstandard.ZstdCompressor().compress(b"hello" * 100)
        monkeypatch.setattr("kprobe_text.pages.dat.compression.ZSTD", (name,))
    unpack = unpacker("zlib" if name == "zlib" else "zstd")
    assert unpack(packed, 500) == b"hello" * 100
    for size, said in ((499, "499"), (501, "500 bytes, not 501"), (1 << 30, "would become 1073741824, more than")):
        with pytest.raises(NotTraceDat, match=said):
            unpack(packed, size)
    with pytest.raises(NotTraceDat, match="can't be unpacked"):
        unpack(b"nonsense", 500)


def test_without_a_library_for_zstd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kprobe_text.pages.dat.compression.ZSTD", ("no_such_library",))
    with pytest.raises(NotTraceDat, match=r"installed: pip install 'kprobe-sim\[bulk\]'"):
        TraceDat((DATA / "plain7.dat").read_bytes())


def kprobe_parse(*words: Any, data: bytes = b"", status: int = 0) -> tuple[str, str]:
    command = [sys.executable, "-m", "kprobe", "parse", *map(str, words)]
    done = subprocess.run(command, input=data, capture_output=True, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout.decode(), done.stderr.decode()


def test_the_verb(tmp_path: Path) -> None:
    out, err = kprobe_parse(DATA / "stack7.dat")
    assert out.splitlines()[:2] == [
        '6.395435335 sh-162 [001] ..... myopen: (do_sys_openat2+0x0/0x4d0) dfd=-100 path="/tmp/work.sh" flags=557056',
        '6.395490787 sh-162 [001] ..... stack: frames=["do_sys_openat2+0x1/0x4d0","__x64_sys_openat+0x6a/0x16700",'
        '"do_syscall_64+0x5d/0xcbe0","entry_SYSCALL_64_after_hwframe+0x6e/0x201e3a"] user=false',
    ]
    assert err == ""
    assert kprobe_parse("-", data=(DATA / "stack7.dat").read_bytes())[0] == out
    (tmp_path / "cut.dat").write_bytes(PLAIN[:-100])
    out, err = kprobe_parse(tmp_path / "cut.dat")
    assert "WARNING: " in err
    assert "it breaks off at byte" in err
    (tmp_path / "short.dat").write_bytes(PLAIN[:100])
    assert (
        "short.dat, byte 38: header_page would have 205 bytes, of which 62 are there"
        in (kprobe_parse(tmp_path / "short.dat", status=1)[1])
    )


@pytest.mark.slow
def test_tables_of_it(tmp_path: Path) -> None:
    """As far as it goes; tests/kprobe_text/columns compares the values."""
    from pyarrow import parquet

    (tmp_path / "cut.dat").write_bytes(PLAIN[:-100])
    _, err = kprobe_parse("--format", "parquet", "-o", tmp_path / "out", DATA / "plain7.dat", tmp_path / "cut.dat")
    assert "it breaks off at byte" in err
    files = {path.stem: parquet.read_table(path) for path in (tmp_path / "out").iterdir()}
    events = sum(isinstance(record, Event) for record in TraceDat((DATA / "plain7.dat").read_bytes()).records())
    rows = [row for name, table in files.items() if not name.startswith("_") for row in table["file"].to_pylist()]
    assert rows.count(str(DATA / "plain7.dat")) == events > 0
    assert rows.count(str(tmp_path / "cut.dat")) > 0


@given(st.data())
def test_damage_is_an_error_or_a_problem(data: st.DataObject) -> None:
    whole = bytearray(data.draw(st.sampled_from([PLAIN, NONE])))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1) | st.integers(0, 700))
        whole[at : at + 1] = data.draw(st.binary(max_size=9))
    try:
        found = TraceDat(bytes(whole))
        read = list(found.records())
        pages = [
            page for buffer in found.contents.buffers for cpu in buffer.cpus for _, page in found.pages(buffer, cpu)
        ]
        assert sum(len(record.raw) for record in read) == sum(map(len, pages))
    except NotTraceDat:
        pass
