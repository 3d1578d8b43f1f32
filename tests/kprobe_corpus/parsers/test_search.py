"""The search for what fools a parser: rules that a naive one breaks, each by its shortest scenario."""

import json
import sys
import tomllib
from pathlib import Path

import pytest

from kprobe.cli import main
from kprobe_corpus.breaking import findings
from kprobe_corpus.breaking.case import PLAINEST, toml
from kprobe_corpus.breaking.rules import rules
from kprobe_corpus.breaking.search import EXAMPLES, PLAIN, Search, search
from kprobe_corpus.parsers.testing import Reader

from .conftest import program

NAMES = (
    "comm-space",
    "comm-dash",
    "comm-colon",
    "no-flags",
    "no-context",
    "string-[cnqs]*",
    "return-probe",
    "flags-digits",
)


def found(argv: list[str], seed: int = 0) -> Search:
    return search(Reader(argv, stays=True), ["7.2"], 600, seed, names=NAMES)


@pytest.fixture(scope="module")
def naive(tmp_path_factory: pytest.TempPathFactory) -> Search:
    return found(program(tmp_path_factory.mktemp("naive"), ""))


@pytest.mark.slow
def test_the_rules_that_a_parser_by_blanks_breaks(naive: Search) -> None:
    broken = {one.rules[0].name: one.case.changes() for one in naive.broken if len(one.rules) == 1}
    assert broken["comm-space"] == {"kernel": "7.2", "comm": b"a a"}
    assert broken["string-space"] == {"kernel": "7.2", "path": b" "}
    assert broken["string-not-utf-8"] == {"kernel": "7.2", "path": b"\xff"}
    assert broken["no-flags"] == {"kernel": "7.2", "options": ("noirq-info",)}
    assert broken["return-probe"] == {"kernel": "7.2", "probe": "r", "arguments": "r=$retval:s32"}
    assert not {"comm-dash", "comm-colon", "string-comma", "flags-digits"} & set(broken)


def test_the_shortest_scenario_is_told_with_its_text_and_answer(naive: Search) -> None:
    shortest = naive.shortest
    assert shortest is not None
    assert [rule.name for rule in shortest.rules] == ["no-context"]
    assert shortest.result.entry.text == b'# tracer: nop\n#\nent: (do_sys_openat2+0x0/0xe0) s="/etc/passwd"\n'
    assert shortest.result.state == "crashed"
    assert shortest.result.words == "ValueError: not enough values to unpack (expected at least 6, got 3)"


@pytest.mark.slow
def test_the_same_seed_finds_the_same(naive: Search, tmp_path: Path) -> None:
    again = found(program(tmp_path, ""))
    assert [one.case for one in again.broken] == [one.case for one in naive.broken]
    assert again.texts == naive.texts


def test_a_parser_that_reads_nothing_is_fooled_by_the_plainest_text(tmp_path: Path) -> None:
    nothing = search(Reader(program(tmp_path, "read = lambda text: []"), stays=True, types=("event",)), ["7.2"], 60, 0)
    assert [one.rules for one in nothing.broken] == [(PLAIN,)]
    assert nothing.broken[0].case == PLAINEST._replace(kernel="7.2")
    said = findings.text(nothing)
    assert "\nnot tried, because the parser misreads even the plainest text: " in said
    assert "time was up" not in said


def test_what_there_was_no_time_for_is_told(tmp_path: Path) -> None:
    none = search(Reader(program(tmp_path, ""), stays=True), ["7.2"], 1e-9, 0)
    assert (none.tried, none.broken) == ((), ())
    assert [rule.name for rule in none.untried] == [rule.name for rule in rules(("7.2",))]


def test_a_rule_that_isn_t_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test-parser", "--break", "--rules", "comm-dot", "--", "true"]) == 2
    assert capsys.readouterr().err.startswith("ERROR: no rule is called comm-dot; there are: comm-space, comm-dash, ")


def test_where_it_can_t_be_confirmed_is_told_before_the_search(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test-parser", "--break", "--confirm", "xen:6.12", "--", "true"]) == 2
    assert capsys.readouterr().err == (
        "ERROR: nothing that is installed makes texts of scenarios on 'xen' (entry points kprobe.scenarios)\n"
    )


def test_a_scenario_is_confirmed_on_another_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--break", "--kernels", "7.2", "--stay", "--rules", "comm-space", "--confirm", "sim:6.1", "--"]
    assert main(["test-parser", *argv, *program(tmp_path, "")]) == 1
    out = capsys.readouterr().out
    assert "confirmed on sim:6.1, whose text is:\n" in out
    assert '             a a-2841    [000] .....    10.000102: ent: (do_sys_openat2+0x0/0x170) s="/etc/passwd"\n' in out


def test_a_scenario_is_whole_as_toml() -> None:
    case = PLAINEST._replace(
        comm=b'a"\\\n\xff', path="é\u2028\x7f".encode(), options=("stacktrace",), clock="counter", cpu=3, start=1.5,
        context=(1, 2), is_known=False, beside=(("marker", "x"),),
    )  # fmt: skip
    assert tomllib.loads(toml(case.scenario())) == case.scenario()


def test_each_rule_has_a_name_of_its_own_and_a_reason() -> None:
    known = rules(("6.1", "7.2"))
    assert len({rule.name for rule in known}) == len(known) >= 80
    assert [rule.name for rule in known if not rule.says or not rule.why] == []
    assert EXAMPLES > 10


def test_a_string_with_a_whole_record_in_it_does_not_fool_ours() -> None:
    ours = Path(__file__).parents[3] / "docs" / "readers" / "kprobe_reader.py"
    reader = Reader((sys.executable, str(ours)), stays=True)
    searched = search(reader, ("7.2",), 120, 0, names=("string-event",))
    assert (len(searched.tried), searched.broken) == (1, ())
    assert searched.texts > EXAMPLES


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    extra = "old = read\ndef read(text):\n    return old(text) if b'[000]' in text else []"
    argv = [
        "--break",
        "--kernels",
        "7.2",
        "--seconds",
        "600",
        "--stay",
        "--json",
        "--rules",
        "no-*",
        "--",
        *program(tmp_path, extra),
    ]
    assert main(["test-parser", *argv]) == 1
    said = json.loads(capsys.readouterr().out)
    shortest = said["broken"][0]
    assert [rule["name"] for rule in shortest["rules"]] == ["no-context"]
    assert shortest["toml"].startswith('title = "found by kprobe test-parser --break"\ndefinitions = ["p:ent <open> ')
    assert shortest["answer"] == []
    assert shortest["truth"] == [
        {"type": "event", "name": "ent", "address": "do_sys_openat2+0x0/0xe0", "fields": {"s": "/etc/passwd"}},
    ]  # fmt: skip
