"""`kprobe parse`: the verb, on recorded traces."""

import csv
import gzip
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

TRACES = Path(__file__).parents[3] / "fixtures" / "text"
DATS = TRACES.parent / "dat"
OPENS = TRACES / "6.1" / "02_comms.trace"
# The command, which says when it begins to read, and how much it got first.
PIECES = """
import os, sys
from kprobe.cli import main
reads = [0]
def read(descriptor, most, really=os.read):
    if descriptor == 0 and not reads[0]:
        os.write(1, b"it reads\\n")
    piece = really(descriptor, most)
    if descriptor == 0 and not reads[0]:
        os.write(1, b"%d\\n" % len(piece))
        reads[0] = 1
    return piece
os.read = read
sys.exit(main(["parse"]))
"""


def kprobe_parse(*words: str | Path, data: bytes = b"", status: int = 0) -> tuple[str, str]:
    """Return what the command says on stdout and stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "kprobe", "parse", *map(str, words)], input=data, capture_output=True, check=False
    )
    assert done.returncode == status, done.stderr
    return done.stdout.decode("utf-8", "surrogateescape"), done.stderr.decode()


def objects(*words: str | Path, data: bytes = b"") -> list[dict[str, Any]]:
    return [json.loads(line) for line in kprobe_parse("--format", "ndjson", *words, data=data)[0].splitlines()]


def test_lines_of_json() -> None:
    first, second = objects(OPENS)[:2]
    assert first == {
        "type": "event", "task": "init", "pid": 1, "cpu": 1, "flags": ".....", "timestamp": 11791146000, "name": "ent",
        "address": "do_sys_openat2+0x0/0x170", "fields": {"dfd": -100, "s": "/tmp/act.log", "flags": 81592},
        "clock": "time", "complete": True, "forgeable": True,
    }  # fmt: skip
    assert (second["name"], second["address"]) == ("ret", "do_sys_openat2")


def test_text_shows_each_record_as_one_line() -> None:
    out, err = kprobe_parse(OPENS)
    lines = out.splitlines()
    shown = '11.791146000 init-1 [001] ..... ent: (do_sys_openat2+0x0/0x170) dfd=-100 s="/tmp/act.log" flags=81592'
    assert lines[0] == shown + " # forgeable"
    assert len(lines) == len(objects(OPENS))
    assert sum('s="/tmp/new\\nline"' in line for line in lines) == 1
    assert err == "NOTE: 1 event not all understood, 142 records that a string could have forged\n"
    assert sum("# not all understood: " in line for line in lines) == 1


def test_csv() -> None:
    rows = list(csv.DictReader(io.StringIO(kprobe_parse("--format=csv", OPENS)[0])))
    assert len(rows) == len(objects(OPENS))
    assert (rows[0]["task"], rows[0]["timestamp"], rows[0]["complete"]) == ("init", "11791146000", "true")
    assert json.loads(rows[0]["fields"]) == {"dfd": -100, "s": "/tmp/act.log", "flags": 81592}


def test_standard_input_gzip_and_several_files(tmp_path: Path) -> None:
    plain, data = objects(OPENS), OPENS.read_bytes()
    assert objects(data=data) == objects("-", data=data) == objects(data=gzip.compress(data)) == plain
    packed = tmp_path / "two.gz"
    packed.write_bytes(gzip.compress(data[:1000]) + gzip.compress(data[1000:]))
    assert objects(packed) == plain
    both = objects(OPENS, packed)
    assert [{k: v for k, v in each.items() if k != "file"} for each in both] == plain + plain
    assert {each["file"] for each in both} == {str(OPENS), str(packed)}


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_packed_trace_dat(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """It was shown as text that isn't understood."""
    dat = DATS / "6.1" / "stack7.dat"
    plain = objects(dat)
    assert (len(plain), plain[0]["fields"]) == (35, {"dfd": -100, "path": "/tmp/work.sh", "flags": 557056})
    packed = tmp_path / "packed"
    packed.write_bytes(pack(dat.read_bytes()))
    assert objects(packed) == objects(data=packed.read_bytes()) == plain
    packed.write_bytes(pack(dat.read_bytes())[:-100])
    assert "breaks off" in kprobe_parse(packed, status=1)[1]


@pytest.mark.parametrize("coding", ["utf-16-le", "utf-16-be"])
def test_text_in_utf_16_is_named(tmp_path: Path, coding: str) -> None:
    (tmp_path / "trace").write_bytes("\ufeff# tracer: nop\n".encode(coding))
    assert "is UTF-16: iconv -f UTF-16" in kprobe_parse(tmp_path / "trace", status=1)[1]


@pytest.mark.parametrize("cut", [1, 3])
def test_what_comes_in_pieces_is_known_by_its_first_bytes(cut: int) -> None:
    """A pipe can hold less than the bytes that tell what it is."""
    for data in ((DATS / "6.1" / "stack7.dat").read_bytes(), gzip.compress(OPENS.read_bytes())):
        whole = kprobe_parse(data=data)
        with subprocess.Popen(
            [sys.executable, "-c", PIECES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == b"it reads\n"
            process.stdin.write(data[:cut])
            process.stdin.flush()
            assert process.stdout.readline() == b"%d\n" % cut
            out, err = process.communicate(data[cut:])
        assert (out.decode("utf-8", "surrogateescape"), err.decode()) == whole


def test_a_closed_standard_input() -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -m kprobe parse <&-', sys.executable], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "ERROR: standard input: it is closed\n")


@pytest.mark.parametrize("schema", ["01_types.formats", "01_types.kprobe_events"])
def test_a_schema_makes_types_exact(schema: str) -> None:
    trace = TRACES / "3.13" / "01_types.trace"
    assert any(each.get("guessed") for each in objects(trace))
    shown = objects("--schema", TRACES / "3.13" / schema, trace)
    assert not any(each.get("guessed") for each in shown if each["name"] == "t_many")
    (many,) = {json.dumps(each["fields"]) for each in shown if each["name"] == "t_many"}
    assert set(json.loads(many).values()) == {0x9C}


def test_a_directory_of_formats(tmp_path: Path) -> None:
    texts = (TRACES / "3.13" / "01_types.formats").read_text("latin-1").split("== events/")[1:]
    for text in texts:
        path, _, shown = text.partition("\n")
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(shown, "latin-1")
    trace = TRACES / "3.13" / "01_types.trace"
    assert objects("--schema", tmp_path, trace) == objects("--schema", TRACES / "3.13" / "01_types.formats", trace)


CUT_FORMAT = """name: ent
ID: 1
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;

\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;
\tfield:char path[16];\toffset:16;\tsize:16;\tsigned:0;
"""


def test_a_format_without_a_print_fmt_says_what_its_fields_are(tmp_path: Path) -> None:
    (tmp_path / "format").write_text(CUT_FORMAT)
    line = b"             cat-42      [001] .....    11.791146: ent: path=12\n"
    assert objects(data=line)[0]["fields"] == {"path": 12}
    assert objects("--schema", tmp_path, data=line)[0]["fields"] == {"path": "12"}


def test_a_bad_format_file_is_told_and_the_others_are_used(tmp_path: Path) -> None:
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "format").write_text(CUT_FORMAT)
    for name, text in (("bad", "name: x\nID: 7\n"), ("empty", ""), ("junk", "\x7fELF"), ("text", "p:a vfs_read\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "format").write_text(text)
    line = b"             cat-42      [001] .....    11.791146: ent: path=12\n"
    out, err = kprobe_parse("--format", "ndjson", "--schema", tmp_path, data=line)
    assert json.loads(out)["fields"] == {"path": "12"}
    assert sorted(err.splitlines())[1:] == [
        f"WARNING: {tmp_path}/bad/format: not a format file: it lacks name, ID or fields; it is left out",
        f"WARNING: {tmp_path}/empty/format isn't an event's format; it is left out",
        f"WARNING: {tmp_path}/junk/format isn't an event's format; it is left out",
        f"WARNING: {tmp_path}/text/format isn't an event's format; it is left out",
    ]
    (tmp_path / "good" / "format").unlink()
    said = f"{tmp_path} has no format file that can be read"
    assert said in kprobe_parse("--schema", tmp_path, data=line, status=2)[1]


def test_one_bad_format_among_others_in_a_file(tmp_path: Path) -> None:
    both = tmp_path / "formats"
    both.write_text("== events/a/format\nname: x\nID: 7\n== events/b/format\n" + CUT_FORMAT)
    line = b"             cat-42      [001] .....    11.791146: ent: path=12\n"
    out, err = kprobe_parse("--format", "ndjson", "--schema", both, data=line)
    assert json.loads(out)["fields"] == {"path": "12"}
    assert err.startswith(f"WARNING: {both}: not a format file: it lacks name, ID or fields; it is left out\n")


def test_function_graph() -> None:
    trace = TRACES / "6.12" / "10_fgraph_.trace"
    assert objects(trace)[0] == {
        "type": "call",
        "kind": "entry",
        "function": "do_sys_openat2",
        "depth": 0,
        "note": "",
        "cpu": 0,
    }
    shown = kprobe_parse(trace)[0].splitlines()
    assert shown[:2] == [
        '[000] call: kind="entry" function="do_sys_openat2" depth=0 note=""',
        '[000] ent: (do_sys_openat2+0x0/0xe0) dfd=-100 s="/tmp/o0" flags=15399768 # forgeable',
    ]
    (line,) = kprobe_parse(data=b"# tracer: function_graph\n               |  /* hello */\n")[0].splitlines()
    assert line == 'comment: text="hello" # forgeable'


def test_nothing_is_left_out() -> None:
    shown = objects(TRACES / "6.1" / "05_lost.trace_pipe")
    assert next(each for each in shown if each["type"] == "lost") == {"type": "lost", "cpu": 0, "count": 679}
    (line,) = objects(data=b"what is this\n")
    assert line == {"type": "unparsed", "raw": "what is this\n"}
    out, err = kprobe_parse(data=b"\xff\xfe no trace\n")
    assert (out, err) == ('unparsed: raw="\\udcff\\udcfe no trace\\n"\n', "NOTE: 1 line not understood\n")


def test_a_terminal_cannot_be_steered() -> None:
    out, _ = kprobe_parse(data=b'         \x1b[31mred-42      [001] .....    11.791146: e: (f+0x0/0x1) s="\x1b[2J"\n')
    assert "\x1b" not in out
    assert "\\u001b[31mred-42" in out


def test_what_cannot_be_read(tmp_path: Path) -> None:
    assert kprobe_parse("/no/such/file", status=1)[1] == "ERROR: /no/such/file: No such file or directory\n"
    broken = tmp_path / "x.gz"
    broken.write_bytes(gzip.compress(OPENS.read_bytes())[:-300])
    out, err = kprobe_parse(broken, status=1)
    assert out.startswith("11.791146000 init-1")
    assert f"ERROR: {broken} breaks off: its gzip has no end\n" in err
    (tmp_path / "t.dat").write_bytes(b"\x17\x08\x44tracing6\0")
    assert (
        "t.dat, byte 12: the order of bytes would have 1 bytes, of which 0 are there"
        in kprobe_parse(tmp_path / "t.dat", status=1)[1]
    )
    # others are still read
    assert kprobe_parse("/no/such/file", OPENS, status=1)[0].startswith(f"{OPENS}: 11.791146000 init-1")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--format", "xml"], "--format is one of text, ndjson, csv, parquet, arrow, not 'xml'"),
        (["--schema"], "--schema takes a value"),
        (["-x"], "unknown option -x"), (["--what"], "unknown option --what"),
        (["--schema", "/dev/null/x"], "/dev/null/x: Not a directory"),
        (["--schema", __file__], "holds neither an event's format nor definitions"),
    ],
)  # fmt: skip
def test_a_wrong_command_line(words: list[str], said: str) -> None:
    assert said in kprobe_parse(*words, status=2)[1]


def test_a_record_is_out_as_soon_as_its_line_is() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "kprobe", "parse"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    assert process.stdin is not None
    assert process.stdout is not None
    lines = OPENS.read_bytes().splitlines(keepends=True)
    for line in [line for line in lines if line.startswith(b"  ")][:3]:
        process.stdin.write(line)
        assert os.read(process.stdout.fileno(), 65536).count(b"\n") == 1
    process.stdin.close()
    assert process.stdout.read() == b""
    assert process.wait() == 0
    process.stdout.close()


def test_help() -> None:
    assert kprobe_parse("--help")[0].startswith(
        "USAGE: kprobe parse [--format FORMAT] [--schema PATH] ... [-o DIR] [FIGURE] [FILE ...]\n"
    )
