"""`kprobe corpus` and `kprobe_corpus.traces`: what is there, what is written out, what is said of what is wrong."""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from kprobe.cli import main
from kprobe_corpus.traces import Corpus, CorpusError, Entry, corpora, entries
from kprobe_corpus.traces.writing import made, packed, write

FORMAT = 'name: ent\nID: 1\nformat:\n\nprint fmt: "(%lx) dfd=%d", REC->__probe_ip, REC->dfd\n'
ABOUT = {"kernel": "6.12", "scenario": "opens", "options": [], "clock": "local", "source": "guest", "truth": "activity"}
TEXT = b"            cat-7       [000] .....     1.000001: ent: (f+0x0/0x10) dfd=-100\n"


@pytest.fixture
def one() -> Entry:
    truth = [{"type": "event", "name": "ent", "task": "a\udcffb", "fields": {"dfd": -100}}]
    formats = {"events/kprobes/ent/format": FORMAT, "events/g/two/format": FORMAT.replace("ent", "two")}
    return made("6.12/opens", TEXT, truth, ABOUT, formats=formats, definitions=["p:ent f dfd=%di:s32"])


@pytest.fixture
def distribution(one: Entry, tmp_path: Path) -> Path:
    """Give a directory as a distribution has it."""
    data = packed([one])
    (tmp_path / "guest.tar.xz").write_bytes(data)
    (tmp_path / "SHA256SUMS").write_text(f"{sha256(data).hexdigest()}  guest.tar.xz\n")
    return tmp_path


def run(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["corpus", *words])
    said = capfd.readouterr()
    return status, said.out, said.err


def test_what_an_entry_gives(one: Entry) -> None:
    assert one.text == TEXT
    assert one.truth() == [{"type": "event", "name": "ent", "task": "a\udcffb", "fields": {"dfd": -100}}]
    assert rb'"task":"a\udcffb"' in one.truth_lines
    assert one.formats == {"ent": FORMAT, "two": FORMAT.replace("ent", "two")}
    assert list(one.format_files) == ["events/kprobes/ent/format", "events/g/two/format"]
    assert one.definitions == ["p:ent f dfd=%di:s32"]
    assert one.about == {**ABOUT, "lines": 1, "sha256": sha256(TEXT).hexdigest()}


def test_what_is_written_is_read_again(one: Entry, tmp_path: Path) -> None:
    write(one, str(tmp_path))
    assert sorted(path.name for path in (tmp_path / "6.12" / "opens").iterdir()) == [
        "about.json", "formats", "kprobe_events", "trace.txt", "truth.jsonl",
    ]  # fmt: skip
    (read,) = entries(directory=str(tmp_path))
    assert (read.kernel, read.name, read.files) == ("6.12", "opens", one.files)


def test_the_same_entries_give_the_same_archive(one: Entry, distribution: Path) -> None:
    assert packed([one]) == (distribution / "guest.tar.xz").read_bytes()
    (read,) = Corpus(str(distribution)).entries()
    assert (read.kernel, read.name, dict(read.files)) == ("6.12", "opens", dict(one.files))


def test_a_damaged_archive_is_told_by_its_name(distribution: Path) -> None:
    archive = distribution / "guest.tar.xz"
    archive.write_bytes(archive.read_bytes()[:-1])
    with pytest.raises(CorpusError, match=r"guest\.tar\.xz is damaged: its SHA-256 is \w{64}, not \w{64}; install"):
        entries(directory=str(distribution))
    archive.unlink()
    with pytest.raises(CorpusError, match=r"guest\.tar\.xz: No such file or directory; install kprobe-corpus again"):
        entries(directory=str(distribution))
    (distribution / "SHA256SUMS").write_text("nonsense\n")
    with pytest.raises(CorpusError, match=r"SHA256SUMS, line 1: no checksum and name: 'nonsense'"):
        entries(directory=str(distribution))


def test_an_archive_that_is_none(distribution: Path) -> None:
    """Its checksum is right, so it was made so."""
    data = b"\xfd7zXZ\0 and no more"
    (distribution / "guest.tar.xz").write_bytes(data)
    (distribution / "SHA256SUMS").write_text(f"{sha256(data).hexdigest()}  guest.tar.xz\n")
    with pytest.raises(CorpusError, match=r"guest\.tar\.xz can't be (read|unpacked): "):
        entries(directory=str(distribution))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda home: (home / "truth.jsonl").unlink(), r"6\.12/opens has no truth\.jsonl: the corpus isn't whole"),
        (lambda home: (home / "trace.txt").write_bytes(b"x\n"), r"6\.12/opens/trace\.txt is damaged: its SHA-256"),
        (lambda home: (home / "about.json").write_text("{"), r"6\.12/opens/about\.json isn't JSON: "),
        (lambda home: (home / "about.json").write_text("[]"), r"6\.12/opens/about\.json isn't an object"),
    ],
)
def test_a_damaged_directory_is_told_by_its_file(one: Entry, tmp_path: Path, damage: object, said: str) -> None:
    write(one, str(tmp_path))
    damage(tmp_path / "6.12" / "opens")  # type: ignore[operator]  # a lambda of the table above
    with pytest.raises(CorpusError, match=said):
        entries(directory=str(tmp_path))


def test_a_damaged_line_of_truth_is_told_by_its_number(one: Entry, tmp_path: Path) -> None:
    write(one, str(tmp_path))
    (tmp_path / "6.12" / "opens" / "truth.jsonl").write_text('{"type": "event"}\n{\n')
    (read,) = entries(directory=str(tmp_path))
    with pytest.raises(CorpusError, match=r"6\.12/opens/truth\.jsonl, line 2 isn't JSON: "):
        read.truth()


def test_choosing(one: Entry, tmp_path: Path) -> None:
    for kernel, name in (("6.12", "opens"), ("6.2", "opens"), ("6.2", "stacks.raw")):
        about = {**ABOUT, "scenario": name.partition(".")[0]}
        write(made(f"{kernel}/{name}", TEXT, one.truth(), about), str(tmp_path))

    def chosen(kernels: list[str], scenarios: list[str]) -> list[tuple[str, str]]:
        return [(entry.kernel, entry.name) for entry in entries(kernels, scenarios, directory=str(tmp_path))]

    assert chosen([], []) == [("6.2", "opens"), ("6.2", "stacks.raw"), ("6.12", "opens")]
    assert chosen(["6.1*"], []) == [("6.12", "opens")]
    assert chosen([], ["stacks"]) == [("6.2", "stacks.raw")]
    for words, said in (
        ((["7.0"], []), "the corpus has no kernel 7.0; it has 6.2, 6.12"),
        (([], ["nosuch"]), "the corpus has no scenario nosuch; `kprobe corpus list` shows those it has"),
        ((["6.12"], ["stacks"]), "none of the kernels 6.12 has a scenario stacks"),
    ):
        with pytest.raises(CorpusError, match=said):
            chosen(*words)


def test_the_verb(one: Entry, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(one, str(tmp_path / "own"))
    own = ("--corpus", str(tmp_path / "own"))
    table = (
        "KERNEL  SCENARIO  LINES  OPTIONS  CLOCK  SOURCE  TRUTH\n"
        "6.12    opens     1      -        local  guest   activity\n"
    )
    assert run(capfd, "list", *own) == (0, table, "")
    whole = f"{tmp_path / 'own'}: 1 traces of 1 kernels, 1 lines, 1 records: whole\n"
    assert run(capfd, "check", *own) == (0, whole, "")
    said = f"1 traces of 1 kernels in {tmp_path / 'copy'}\n"
    assert run(capfd, "export", str(tmp_path / "copy"), *own) == (0, said, "")
    copied = (tmp_path / "copy" / "6.12" / "opens" / "about.json").read_bytes()
    assert json.loads(copied)["source"] == "guest"
    shutil.rmtree(tmp_path / "copy")
    (tmp_path / "copy").write_text("a file")
    status, _, said = run(capfd, "export", str(tmp_path / "copy"), *own)
    assert (status, said) == (1, f"ERROR: {tmp_path / 'copy' / '6.12'}: Not a directory\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "ERROR: the action is one of list, check, export\n"),
        (("lst",), "ERROR: the action is one of list, check, export, not lst; did you mean list?\n"),
        (("export",), "ERROR: export takes the directory to write to\n"),
        (("list", "x"), "ERROR: x is one word too many\n"),
        (("list", "--kernel", "6.1"), "ERROR: unknown option --kernel; did you mean --kernels?\n"),
    ],
)
def test_wrong_command_lines(words: tuple[str, ...], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capfd, *words)
    assert (status, out) == (2, "")
    assert err.startswith(said)


def test_no_corpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: ())
    assert corpora() == []
    assert run(capfd, "list") == (
        1,
        "",
        "ERROR: no corpus is installed: it comes in the distribution kprobe-corpus; in a checkout of kprobe-sim, "
        "`pip install ./distributions/kprobe-corpus` installs it (docs/start/install.md)\n",
    )
    nowhere = tmp_path / "nowhere"
    assert run(capfd, "list", "--corpus", str(nowhere))[2] == f"ERROR: {nowhere}: there is no such directory\n"
    assert "holds no entries: each is a directory KERNEL/NAME with trace.txt" in run(
        capfd, "list", "--corpus", str(tmp_path)
    )[2]  # fmt: skip
