"""kprobe test-parser on a small corpus: what it prints, and its exit status."""

import json
import sys
from pathlib import Path

import pytest

from kprobe.cli import main

REPORT = """\
options     6.1  7.2
plain         .    .
stacktrace    -    1

defect             6.1  7.2
plain                .    .
blank in a string    -    1

blank in a string: 7.2/blank, line 4 (4 lines), wrong
                 cat-2841    [000] .....    10.000101: myopen: (do_sys_openat2+0x0/0xe0) fd=1 path="/b c"
  fields.path expected  "/b c"
  fields.path said      "/b"

3 texts in TIME: 4 right, 1 wrong
not compared, as the parser never reports it: event.address, event.clock, event.cpu, event.flags, event.pid
"""


def run(*words: object) -> int:
    return main(["test-parser", *map(str, words)])


def timeless(text: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(
        f"{line.split(' in ')[0]} in TIME:{line.partition(':')[2]}" if " texts in " in line else line for line in lines
    )


@pytest.mark.parametrize("mode", [(), ("--stay",), ("--jobs", 3)])
def test_the_report(corpus: Path, by_blanks: list[str], capsys: pytest.CaptureFixture[str], mode: tuple[str]) -> None:
    assert run("--corpus", corpus, *mode, "--", *by_blanks) == 1
    assert timeless(capsys.readouterr().out) == REPORT


def test_a_parser_that_reads_all_rightly(
    corpus: Path, by_blanks: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--corpus", corpus, "--options", "plain", "--", *by_blanks) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["options  6.1  7.2", "plain      .    ."]


def test_json_has_each_text(corpus: Path, by_blanks: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--corpus", corpus, "--json", "--kernels", "7.2", "--", *by_blanks) == 1
    found = json.loads(capsys.readouterr().out)
    assert [(entry["name"], entry["right"], entry.get("wrong")) for entry in found["entries"]] == [
        ("blank", 1, 1), ("plain", 1, None),
    ]  # fmt: skip
    assert [(one["defects"], one["line"], one["key"], one["expected"], one["said"]) for one in found["examples"]] == [
        (["blank in a string"], 4, "fields.path", "/b c", "/b"),
    ]  # fmt: skip
    assert found["is_well"] is False


def test_a_command_that_crashes(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "import sys; sys.exit('no such column')"
    assert run("--corpus", corpus, "--kernels", "6.1", "--", sys.executable, "-c", code) == 1
    out = capsys.readouterr().out
    assert "plain: 6.1/plain (4 lines), crashed\n  exit status 1: no such column\n" in out
    assert "1 times crashed" in out


def test_a_command_that_hangs_is_ended(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "import time; time.sleep(600)"
    assert run("--corpus", corpus, "--kernels", "6.1", "--limit", "0.2", "--", sys.executable, "-c", code) == 1
    assert "plain: 6.1/plain (4 lines), hung\n  no end after 0.2 s\n" in capsys.readouterr().out


def test_lines_that_are_no_records_are_named(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = 'print(\'{"type":"event","pid":"1"}\')'
    assert run("--corpus", corpus, "--kernels", "6.1", "--types", "event", "--", sys.executable, "-c", code) == 1
    assert "line 1 of the answer isn't a record: 'pid' isn't a whole number" in capsys.readouterr().out


def test_what_a_command_is_told(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "told"
    code = (
        "import os; trace, formats, events = (open(os.environ['KPROBE_' + name]).read() "
        "for name in ('TRACE', 'FORMATS', 'EVENTS')); "
        f"open({str(out)!r}, 'w').write(repr((trace[:13], formats, events, "
        "os.environ['KPROBE_KERNEL'], os.environ['KPROBE_OPTIONS'], os.environ['KPROBE_CLOCK'])))"
    )
    run("--corpus", corpus, "--options", "stacktrace", "--", sys.executable, "-c", code)
    assert out.read_text() == repr(
        ("# tracer: nop", "", "p:myopen do_sys_openat2\n", "7.2", "stacktrace", "local")
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "the parser's command is missing: it comes after --"),
        (("awk", "-f", "x"), "unknown option -f"),
        (("awk",), "the parser's command comes after --: -- awk"),
        (("--jobs", "0", "--", "awk"), "--jobs takes a whole number, not '0'"),
        (("--seconds", "9", "--", "awk"), "--seconds goes with --break"),
        (("--break", "--options", "raw", "--", "awk"), "--options does not go with --break"),
    ],
)
def test_a_wrong_command_line(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words) == 2
    assert capsys.readouterr().err.splitlines()[0] == f"ERROR: {said}"


def test_what_can_t_be_done_is_said(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--corpus", corpus, "--", "/nonexistent/parser") == 2
    assert capsys.readouterr().err == "ERROR: /nonexistent/parser can't be started: No such file or directory\n"
    assert run("--corpus", corpus, "--options", "raw", "--", "true") == 2
    assert capsys.readouterr().err == "ERROR: no text has the options raw; there are: plain, stacktrace\n"
    assert run("--corpus", tmp_path / "none", "--", "true") == 2
    assert "there is no such directory" in capsys.readouterr().err


INSTEAD = "name its interpreter first, as in -- python3 ./mine.py"


@pytest.mark.parametrize(
    ("mode", "text", "word", "said"),
    [
        (0o644, "x", "./mine.py", f"Permission denied; it isn't executable: {INSTEAD}"),
        (0o755, "x", "./mine.py", f"Exec format error; it has no #! line: {INSTEAD}"),
        (0o755, "#!/none/such\n", "./mine.py", "No such file or directory; the interpreter after its #! isn't there"),
        (0o755, "x", "mine.py", "No such file or directory; give it as ./mine.py"),
    ],
)  # fmt: skip
def test_a_program_that_can_t_be_started_is_told_with_what_to_do(
    mode: int, text: str, word: str, said: str, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(text)
    (tmp_path / "mine.py").chmod(mode)
    assert run("--corpus", corpus, "--", word) == 2
    assert capsys.readouterr().err == f"ERROR: {word} can't be started: {said}\n"


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    assert capsys.readouterr().out.startswith(
        "USAGE: kprobe test-parser [--break] [OPTION ...] -- CMD [ARGUMENT ...]\n"
    )
