"""kprobe test-parser --baseline: what is known passes, what is new fails, what is repaired is told and struck off."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprobe.cli import main
from kprobe_corpus.parsers.reports.baseline import Baseline, Extent, Failure, change, read, write

# the corpus of conftest.py, and what its parser by blanks misreads of it
WRITTEN = """\
# What a parser is known to misread; kprobe test-parser --update-baseline strikes off what is repaired.
# baseline: 1
# corpus: texts with digest DIGEST
# texts: all
# compared: all
7.2/blank: invented fields.c" in 2
7.2/blank: wrong fields.path in 2
"""


@pytest.fixture
def tested(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run test-parser beside the baseline known.txt; return its status, what it printed, and what it said."""

    def run(command: list[str], *options: str) -> tuple[int, str, str]:
        words = ["--corpus", str(corpus), "--baseline", str(tmp_path / "known.txt"), *options, "--", *command]
        status = main(["test-parser", *words])
        out, err = capsys.readouterr()
        return status, out.replace(f"{tmp_path}/", ""), err.replace(f"{tmp_path}/", "")

    return run


def held(path: Path) -> str:
    """Return the baseline with its digest hidden, which is that of the corpus in the fixture."""
    lines = path.read_text().splitlines()
    digest = lines[2].removeprefix("# corpus: texts with digest ")
    assert len(digest) == 12
    lines[2] = lines[2].replace(digest, "DIGEST")
    return "".join(f"{line}\n" for line in lines)


def altered(by_blanks: list[str], before: str, after: str) -> list[str]:
    """Write another parser beside the one by blanks; return its command."""
    source = Path(by_blanks[1]).read_text()
    assert before in source
    path = Path(by_blanks[1]).with_name("altered.py")
    path.write_text(source.replace(before, after))
    return [sys.executable, str(path)]


def test_it_is_written_read_and_held_to(tested: Any, by_blanks: list[str], tmp_path: Path) -> None:
    assert tested(by_blanks) == (
        2, "", "ERROR: known.txt: there is no such file; --update-baseline writes it\n",
    )  # fmt: skip
    status, out, _ = tested(by_blanks, "--update-baseline")
    assert status == 0
    assert "\nknown.txt: written, 2 known\n" in out
    assert held(tmp_path / "known.txt") == WRITTEN
    status, out, _ = tested(by_blanks)
    assert status == 0
    assert "\nknown.txt: 2 known, 0 new, 0 repaired\n3 texts in " in out
    assert "expected" not in out  # no example of what is known


def test_what_is_new_fails_and_is_named(tested: Any, by_blanks: list[str], tmp_path: Path) -> None:
    tested(by_blanks, "--update-baseline")
    worse = altered(by_blanks, "word.strip('\"')", "word.strip('\"/')")
    status, out, _ = tested(worse)
    assert status == 1
    new = ["  6.1/plain: wrong fields.path in record 1", "  6.1/plain: wrong fields.path in record 2",
           "  7.2/blank: wrong fields.path in record 1", "  7.2/plain: wrong fields.path in record 1"]  # fmt: skip
    assert "\n".join(["known.txt: 2 known, 4 new, 0 repaired", "new:", *new, "3 texts in "]) in out
    assert 'fields.path expected  "/a"' in out
    assert tested(worse, "--update-baseline")[0] == 1  # what is new isn't taken for known
    assert held(tmp_path / "known.txt") == WRITTEN


def test_what_is_repaired_is_told_and_struck_off(tested: Any, by_blanks: list[str], tmp_path: Path) -> None:
    tested(by_blanks, "--update-baseline")
    better = altered(by_blanks, "line.split()", "line.split(None, 7)")
    status, out, _ = tested(better)
    assert status == 0
    repaired = '  7.2/blank: invented fields.c" in record 2\n  7.2/blank: wrong fields.path in record 2\n'
    told = "known.txt: 0 known, 0 new, 2 repaired{}\nrepaired:\n" + repaired
    assert told.format(": --update-baseline strikes them off") in out
    assert held(tmp_path / "known.txt") == WRITTEN
    status, out, _ = tested(better, "--update-baseline")
    assert (status, told.format(", which are struck off") in out) == (0, True)
    assert held(tmp_path / "known.txt") == "".join(WRITTEN.splitlines(keepends=True)[:-2])


def test_of_fewer_texts_nothing_is_repaired_nor_struck_off(tested: Any, by_blanks: list[str], tmp_path: Path) -> None:
    tested(by_blanks, "--update-baseline")
    status, out, _ = tested(by_blanks, "--kernels", "6.1")
    assert (status, "known.txt: 0 known, 0 new, 0 repaired\n" in out) == (0, True)
    assert tested(by_blanks, "--kernels", "6.1", "--update-baseline") == (
        2, "", "ERROR: known.txt is of texts all, and this is --kernels 6.1: give the same options\n",
    )  # fmt: skip


def test_another_corpus_needs_another_baseline(tested: Any, by_blanks: list[str], tmp_path: Path, corpus: Path) -> None:
    tested(by_blanks, "--update-baseline")
    about = corpus / "7.2" / "plain" / "truth.jsonl"
    about.write_text(about.read_text().replace("2841", "2842"))
    status, out, err = tested(by_blanks)
    assert (status, out) == (2, "")
    assert err.startswith("ERROR: known.txt is of corpus texts with digest ")
    assert err.endswith(": remove it, and --update-baseline writes it anew\n")


def test_a_crash_that_is_known_covers_its_text(tested: Any, by_blanks: list[str], tmp_path: Path) -> None:
    crashes = altered(by_blanks, "answer(read)", "answer(lambda text: 1 / (b'/b c' not in text) and read(text))")
    assert tested(crashes, "--update-baseline")[0] == 0
    assert held(tmp_path / "known.txt") == WRITTEN.partition("7.2/")[0] + "7.2/blank: crashed\n"
    status, out, _ = tested(by_blanks, "--update-baseline")
    assert (status, "known.txt: 2 known, 0 new, 1 repaired, which are struck off\n" in out) == (0, True)
    assert held(tmp_path / "known.txt") == WRITTEN
    status, out, _ = tested(crashes)
    assert (status, "known.txt: 0 known, 1 new, 0 repaired\nnew:\n  7.2/blank: crashed\n" in out) == (1, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "known.txt is no baseline that this kprobe reads: it has no line # baseline: 1"),
        ("# baseline: 2\n", "known.txt is no baseline that this kprobe reads: it is of version 2"),
        (
            "# baseline: 1\n7.2/blank: odd in 2\n",
            "known.txt, line 2: '7.2/blank: odd in 2' isn't KERNEL/TEXT: KIND [KEY] in RECORDS",
        ),
        (b"# baseline: 1\n\xff\n", "known.txt is no baseline: it isn't UTF-8"),
    ],
)
def test_what_is_no_baseline(tested: Any, tmp_path: Path, text: str | bytes, said: str) -> None:
    (tmp_path / "known.txt").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert tested(["true"]) == (2, "", f"ERROR: {said}\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--update-baseline", "--", "awk"), "--update-baseline goes with --baseline"),
        (("--break", "--baseline", "x", "--", "awk"), "--baseline does not go with --break"),
        (("--break", "--format", "junit", "--", "awk"), "--format junit does not go with --break"),
        (("--format", "xml", "--", "awk"), "--format is one of text, json, junit, github, not 'xml'"),
    ],
)
def test_a_wrong_command_line(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test-parser", *words]) == 2
    assert capsys.readouterr().err.splitlines()[0] == f"ERROR: {said}"


NAMES = st.sampled_from(["plain", "03_opt_verbose,sym-addr", "torn.620", "a b"])
KERNELS = st.sampled_from(["6.1", "6.12", "documents"])
KEYS = st.sampled_from(["", "task", "fields.s in 4", 'fields."', '"', "fields.a\nb", "fields.é", "fields.\x85"])
FAILURES = st.one_of(
    st.tuples(KERNELS, NAMES, st.sampled_from(["crashed", "hung"])),
    st.tuples(KERNELS, NAMES, st.sampled_from(["wrong", "missing", "invented"]), KEYS | st.text(), st.integers(1, 40)),
).map(lambda parts: Failure(*parts))


@given(found=st.frozensets(FAILURES, max_size=12))
def test_what_is_written_is_what_is_read(found: frozenset[Failure], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = str(tmp_path_factory.getbasetemp() / "known.txt")
    before = Baseline(Extent("corpus 1", "--kernels 6.1", "--types event"), found)
    write(path, before)
    assert read(path) == before
    same = Path(path).read_bytes()
    write(path, before._replace(failures=frozenset(sorted(found, reverse=True))))
    assert Path(path).read_bytes() == same
    assert change(before, [], before.scope).repaired == found


# the formats


def test_junit(tested: Any, by_blanks: list[str], corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test-parser", "--corpus", str(corpus), "--format", "junit", "--", *by_blanks]) == 1
    root = ElementTree.fromstring(capsys.readouterr().out)
    (suite,) = root
    assert (root.tag, suite.tag) == ("testsuites", "testsuite")
    assert {name: suite.get(name) for name in ("name", "tests", "failures", "errors", "skipped")} == {
        "name": "kprobe test-parser", "tests": "3", "failures": "1", "errors": "0", "skipped": "0",
    }  # fmt: skip
    assert [(case.get("classname"), case.get("name"), [node.tag for node in case]) for case in suite] == [
        ("6.1", "plain", []), ("7.2", "blank", ["failure"]), ("7.2", "plain", []),
    ]  # fmt: skip
    failure = suite[1][0]
    assert failure.get("message") == "line 4: wrong fields.path"
    assert failure.text is not None
    assert '  fields.path expected  "/b c"\n  fields.path said      "/b"\n' in failure.text
    tested(by_blanks, "--update-baseline")
    status, out, _ = tested(by_blanks, "--format", "junit")
    (case,) = [case for case in ElementTree.fromstring(out)[0] if len(case)]
    assert (status, case[0].tag, case[0].attrib) == (0, "skipped", {"message": "2 known failures"})


def test_junit_of_a_command_that_crashes_has_no_character_that_xml_cannot_hold(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "import sys; sys.exit('a\\x1b[31m\\0<&')"
    words = ["--corpus", str(corpus), "--kernels", "6.1", "--format", "junit", "--", sys.executable, "-c", code]
    assert main(["test-parser", *words]) == 1
    suite = ElementTree.fromstring(capsys.readouterr().out)[0]
    assert (suite.get("errors"), suite[0][0].tag) == ("1", "error")
    assert suite[0][0].get("message") == "exit status 1: a\\x1b[31m\\x00<&"


def test_github(tested: Any, by_blanks: list[str], corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test-parser", "--corpus", str(corpus), "--format", "github", "--", *by_blanks]) == 1
    line, summary, *_ = capsys.readouterr().out.splitlines()
    assert line == (
        f"::error file={corpus}/7.2/blank/trace.txt,line=4,title=7.2/blank::blank in a string: 7.2/blank, line 4 "
        "(4 lines), wrong%0A                 cat-2841    [000] .....    10.000101: myopen: (do_sys_openat2+0x0/0xe0) "
        'fd=1 path="/b c"%0A  fields.path expected  "/b c"%0A  fields.path said      "/b"%0A'
    )
    assert summary.startswith("3 texts in ")
    tested(by_blanks, "--update-baseline")
    assert "::error" not in tested(by_blanks, "--format", "github")[1]


def test_json(tested: Any, by_blanks: list[str]) -> None:
    tested(by_blanks, "--update-baseline")
    found = json.loads(
        tested(altered(by_blanks, "int(word)", "1 + int(word)"), "--format", "json", "--kernels", "6.1")[1]
    )
    assert found["is_well"] is False
    assert found["baseline"] == {
        "known": 0,
        "new": [
            {"kernel": "6.1", "name": "plain", "kind": "wrong", "key": "fields.fd", "record": record}
            for record in (1, 2)
        ],
        "repaired": [],
    }
