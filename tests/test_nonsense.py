"""tools/fuzz/nonsense.py: a file of any kind is read, or refused in time and in a line that names it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "tools" / "fuzz"))

import nonsense

FEW = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("kind", nonsense.KINDS)
def test_a_file(kind: str) -> None:
    @FEW
    @given(st.randoms(use_true_random=False))
    def holds(random: Random) -> None:
        with tempfile.TemporaryDirectory() as place:
            nonsense.hold(kind, random, Path(place))

    holds()


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False))
def test_lines(random: Random) -> None:
    nonsense.hold_line(random)


@pytest.mark.parametrize("kind", nonsense.KINDS)
def test_a_valid_file_is_accepted(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the others would show nothing."""
    monkeypatch.setattr(nonsense, "damaged", lambda tree, random, own: tree)
    monkeypatch.setattr(nonsense, "mutated", lambda line, random: line)
    monkeypatch.setattr(nonsense, "torn", lambda data, random: data)

    class First(Random):
        def randrange(self, start: int, *more: int) -> int:  # type: ignore[override]  # nothing twice, nothing gone
            return 1

    random = First(1)
    accepted = nonsense.hold(kind, random, tmp_path)
    assert accepted or kind == "facts"  # whose file is three kinds in one, none of them whole


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["p vfs_read+010"], "p_vfs_read_8: (f+0x0/0x1) a=1"),
        (["p vfs_read+8"], "p_vfs_read_8: (f+0x0/0x1) a=1"),
        (["p:x f a=%di:u8[0]"], "x: (f+0x0/0x1) a=1"),
        ([f"p:x f a=\\{'1' * 4301}"], "x: (f+0x0/0x1) a=1"),
        (["p:x f a=%di:x64"], f"x: (f+0x0/0x1) a=0x{'f' * 5000}"),
        (["p:x f a=%di:symbol"], f"x: (f+0x0/0x1) a=0x{'f' * 5000}"),
    ],
)
def test_definitions_that_were_tracebacks(lines: list[str], said: str, tmp_path: Path) -> None:
    from kprobe.cli import main

    (tmp_path / "schema").write_text("\n".join(lines))
    (tmp_path / "trace").write_text(f"            bash-42      [001] .....    11.791146: {said}\n")
    for shape in ("text", "ndjson", "csv"):
        words = ["parse", "--format", shape, "--schema", str(tmp_path / "schema"), str(tmp_path / "trace")]
        assert nonsense.told(main, words, ())


@pytest.mark.parametrize(("offset", "name"), [("010", "8"), ("0x10", "16"), ("0", "0"), ("12", "12"), ("0XaB", "171")])
def test_the_name_of_a_probe_that_has_none(offset: str, name: str) -> None:
    from kprobe_text.text import defined_name

    assert defined_name(f"p vfs_read+{offset}") == f"p_vfs_read_{name}"
    assert defined_name("p vfs_read+08") == ""  # kstrtol() reads no octal 8
    assert defined_name(f"p vfs_read+{'9' * 5000}") == ""


def test_a_baseline_of_more_records_than_there_are(tmp_path: Path) -> None:
    from kprobe_corpus.parsers.reports.baseline import BadBaseline, read

    (tmp_path / "known").write_text("# baseline: 1\n6.1/one: wrong name in 1-99999999999\n")
    with pytest.raises(BadBaseline, match=r"line 2: '6\.1/one: wrong name in 1-99999999999' isn't KERNEL/TEXT"):
        read(str(tmp_path / "known"))


def test_the_command_finds_what_is_wrong(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(place: Path, data: bytes) -> bool:
        raise KeyError(len(data) and "x")

    monkeypatch.setitem(nonsense.KINDS, "lock", nonsense.KINDS["lock"]._replace(read=broken))
    monkeypatch.setattr(sys, "argv", ["nonsense.py", "lock", "--seed", "3", "--count", "2"])
    assert nonsense.main() == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "FOUND lock --seed 3 --count 1: KeyError: 'x'"
    assert said[-1] == "2 findings"
