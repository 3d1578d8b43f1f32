"""`kprobe parse --format parquet|arrow`: files, whose columns change as the text is read, and what goes wrong."""

from __future__ import annotations

import gzip
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import zstandard
from pyarrow import parquet

from kprobe_text.columns import Reading, Store, Writer
from kprobe_text.columns import store as stores

TRACES = Path(__file__).parents[3] / "fixtures" / "text"
PROGRESS = re.compile(r"reading \.\.\. \d+ s\n")  # said on a busy machine
OPENS = TRACES / "6.1" / "02_comms.trace"
HEAD = b"            bash-42      [001] .....    11.791146: e: (f+0x0/0x190)"


def kprobe_parse(*words: str | Path, status: int = 0, **options: Any) -> str:
    """Return what the command says on stderr."""
    command = [sys.executable, "-m", "kprobe", "parse", *map(str, words)]
    done = subprocess.run(command, capture_output=True, check=False, **options)
    assert done.returncode == status, done.stderr
    assert done.stdout == b""
    return "".join(line for line in done.stderr.decode().splitlines(keepends=True) if not PROGRESS.match(line))


def read(directory: Path, form: str) -> dict[str, list[dict[str, Any]]]:
    found = {}
    for path in sorted(directory.iterdir()):
        if form == "parquet":
            found[path.stem] = parquet.read_table(path).to_pylist()
        else:
            found[path.stem] = pa.ipc.open_file(path).read_all().to_pylist()
    return found


def written(directory: Path, text: bytes, form: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Write each 100 lines at once, as a long text would be."""
    monkeypatch.setattr(stores, "HELD", 0)
    writer = Writer(Store(str(directory), form))
    lines = text.splitlines(keepends=True)
    for tables in Reading().tables([b"".join(lines)]):
        for name, table in tables.items():
            for at in range(0, len(table), 100):
                writer.add({name: table.slice(at, 100)})
    assert writer.close() == sorted(path.name for path in directory.iterdir())
    return {path.stem: path for path in directory.iterdir()}


def test_a_file_for_each_event(tmp_path: Path) -> None:
    err = kprobe_parse("--format", "parquet", "-o", tmp_path / "out", OPENS)
    found = read(tmp_path / "out", "parquet")
    assert sorted(found) == ["_others", "ent", "ret"]
    assert {row["type"] for row in found["_others"]} == {"header"}
    rows = sum(map(len, found.values()))
    assert err == f"NOTE: {rows} rows in 3 files: _others.parquet ent.parquet ret.parquet\n"
    first = found["ent"][0]
    assert first == {
        "file": str(OPENS), "offset": first["offset"], "task": "init", "pid": 1, "tgid": None, "cpu": 1,
        "flags": ".....", "timestamp": 11791146000, "clock": "time", "address": "do_sys_openat2+0x0/0x170",
        "caller": None, "group": None, "instance": None, "complete": True, "guessed": [], "forgeable": True,
        "raw": None, "arg_dfd": -100, "arg_s": "/tmp/act.log", "arg_flags": 81592,
    }  # fmt: skip
    assert OPENS.read_bytes()[first["offset"] :].startswith(b"            init-1")
    # a path with a byte that isn't UTF-8
    assert {row["arg_s"] for row in found["ent"] if row["raw"] and row["complete"]} >= {"/tmp/ä\\xff\x01"}


def test_what_columns_are_packed_by(tmp_path: Path) -> None:
    """Texts and arguments by what makes them smallest, what repeats by what is quickest, differences not at all."""
    kprobe_parse("--format", "parquet", "-o", tmp_path / "out", OPENS)
    with parquet.ParquetFile(tmp_path / "out" / "ent.parquet") as file:
        group = file.metadata.row_group(0)
        columns = [group.column(number) for number in range(group.num_columns)]
    found = {column.path_in_schema: (column.compression, column.encodings) for column in columns}
    assert found["arg_s"] == ("ZSTD", ("PLAIN", "RLE", "RLE_DICTIONARY"))
    assert found["task"] == ("SNAPPY", ("PLAIN", "RLE", "RLE_DICTIONARY"))
    assert found["guessed.list.element"][0] == "SNAPPY"
    assert found["timestamp"] == ("UNCOMPRESSED", ("RLE", "DELTA_BINARY_PACKED"))


@pytest.mark.slow
def test_arrow_holds_the_same(tmp_path: Path) -> None:
    kprobe_parse("--format", "parquet", "-o", tmp_path / "one", OPENS)
    kprobe_parse("--format=arrow", "--jobs", "1", "-o", tmp_path / "two", OPENS)
    assert read(tmp_path / "one", "parquet") == read(tmp_path / "two", "arrow")


def test_an_argument_called_as_a_column_is_another_column(tmp_path: Path) -> None:
    text = (HEAD + b' flags=7 pid=0x8 timestamp=9 raw="r"\n') * 2
    kprobe_parse("--format", "parquet", "-o", tmp_path / "out", input=text)
    row = read(tmp_path / "out", "parquet")["e"][1]
    assert (row["flags"], row["pid"], row["timestamp"], row["raw"]) == (".....", 42, 11791146000, None)
    assert (row["arg_flags"], row["arg_pid"], row["arg_timestamp"], row["arg_raw"]) == (7, 8, 9, "r")


@pytest.mark.parametrize("form", ["parquet", "arrow"])
@pytest.mark.parametrize(
    ("before", "after", "kind", "values"),
    [
        (b"1", b"0xffffffffffffffff", "uint64", [1, 18446744073709551615]),
        (b"-1", b"0xffffffffffffffff", "decimal128(38, 0)", [-1, 18446744073709551615]),
        (b"5", b'"text"', "string", ["5", "text"]),
        (b"{1,2}", b'"text"', "string", ["[1, 2]", "text"]),
        (b"{1,2}", b"{-1,2}", "list<element: int64>", [[1, 2], [-1, 2]]),
        (b"(fault)", b"7", "int64", [None, 7]),
    ],
)
def test_a_column_whose_type_changes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    before: bytes,
    after: bytes,
    kind: str,
    values: list[Any],
) -> None:
    """Also when rows of the first type are in the file already."""
    text = (HEAD + b" a=" + before + b"\n") * 150 + (HEAD + b" a=" + after + b" new=1\n") * 150
    path = written(tmp_path, text, form, monkeypatch)["e"]
    table = parquet.read_table(path) if form == "parquet" else pa.ipc.open_file(path).read_all()
    assert str(table.schema.field("arg_a").type).replace("item", "element") == kind
    assert [table["arg_a"][row].as_py() for row in (0, 299)] == values
    assert table["arg_new"].to_pylist() == [None] * 150 + [1] * 150
    assert table["offset"].to_pylist() == sorted(table["offset"].to_pylist())


def test_names_that_mean_something_else_in_a_path(tmp_path: Path) -> None:
    names = [b"../up", b"_stacks", b".hidden", b"a=b", b"x" * 300]
    text = b"".join(HEAD.replace(b" e: ", b" " + name + b": ") + b" a=1\n" for name in names)
    kprobe_parse("--format", "arrow", "-o", tmp_path / "out", input=text)
    found = read(tmp_path / "out", "arrow")
    assert sorted(found) == ["%2E.%2Fup", "%2Ehidden", "%5Fstacks", "_others", "a%3Db"]
    assert [row["type"] for row in found["_others"]] == ["event"]


def test_events_without_end_have_a_table_together(tmp_path: Path) -> None:
    text = b"".join(HEAD.replace(b" e: ", b" e%d: " % i) + b" a=1\n" for i in range(300))
    kprobe_parse("--format", "arrow", "-o", tmp_path / "out", input=text)
    found = read(tmp_path / "out", "arrow")
    assert (len(found), len(found["_others"])) == (257, 300 - 256)


def test_packed_files(tmp_path: Path) -> None:
    data = OPENS.read_bytes()
    (tmp_path / "t.gz").write_bytes(gzip.compress(data))
    (tmp_path / "t.zst").write_bytes(zstandard.compress(data[:5000]) + zstandard.compress(data[5000:]))
    kprobe_parse("--format", "arrow", "-o", tmp_path / "out", tmp_path / "t.gz", tmp_path / "t.zst")
    rows = read(tmp_path / "out", "arrow")["ent"]
    half = len(rows) // 2
    assert [row["file"].rpartition(".")[2] for row in rows] == ["gz"] * half + ["zst"] * half
    assert [{**row, "file": ""} for row in rows[:half]] == [{**row, "file": ""} for row in rows[half:]]


def test_a_file_that_breaks_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    packed = zstandard.compress(OPENS.read_bytes() + os.urandom(9000).hex().encode())
    (tmp_path / "t.zst").write_bytes(packed[:-100])
    words = ("--format", "parquet", "-o", tmp_path / "out", tmp_path / "t.zst", tmp_path / "none", OPENS)
    err = kprobe_parse(*words, status=1)
    assert f"ERROR: {tmp_path}/t.zst breaks off: its zstd has no end; what comes before it is written" in err
    assert f"ERROR: {tmp_path}/none: No such file or directory" in err
    assert str(OPENS) in {row["file"] for row in read(tmp_path / "out", "parquet")["ent"]}


def test_a_directory_with_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    err = kprobe_parse("--format", "parquet", "-o", tmp_path, OPENS, status=2)
    assert err == f"ERROR: {tmp_path} isn't empty (mine): name another directory, or empty it\n"
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_full_disk_leaves_no_half_files(tmp_path: Path) -> None:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    err = kprobe_parse("--format", "arrow", "-o", tmp_path / "out", OPENS, status=1, preexec_fn=limit)
    assert err.startswith(f"ERROR: {tmp_path}/out: ")
    assert "File too large" in err
    assert "nothing is written; make room, or name another directory" in err
    assert list((tmp_path / "out").iterdir()) == []


def test_without_the_extra(tmp_path: Path) -> None:
    words = ("-c", "import sys; sys.modules['pyarrow'] = None; from kprobe.cli import main; sys.exit(main())", "parse")
    command = [sys.executable, *words, "--format", "parquet", "-o", str(tmp_path / "out"), str(OPENS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--format parquet needs pyarrow, which isn't installed" in done.stderr
    assert "pip install 'kprobe-sim[bulk]'" in done.stderr


@pytest.mark.slow
def test_long_text_and_no_numba(tmp_path: Path) -> None:
    """Text that is long enough for the compiled pass gives the same without it."""
    text = (HEAD + b' a="x" b=-1\n' + HEAD + b" a=(fault) b=0x5\n") * 15000
    assert len(text) > 2 << 20
    program = "import sys; sys.modules['numba'] = None; from kprobe.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "parse", "--format", "arrow", "-o", str(tmp_path / "one")]
    subprocess.run(command, check=True, capture_output=True, input=text)
    kprobe_parse("--format", "arrow", "-o", tmp_path / "two", input=text)
    assert (tmp_path / "one" / "e.arrow").stat().st_size > 1 << 20
    assert pa.ipc.open_file(tmp_path / "one" / "e.arrow").read_all() == pa.ipc.open_file(
        tmp_path / "two" / "e.arrow"
    ).read_all().cast(pa.ipc.open_file(tmp_path / "one" / "e.arrow").schema)


@pytest.mark.parametrize("words", [["--format", "parquet"], ["-o", "out"], ["--format", "csv", "-o", "out"]])
def test_the_directory_and_the_format_go_together(words: list[str]) -> None:
    assert "--format parquet or arrow and -o DIR go together" in kprobe_parse(*words, OPENS, status=2)
