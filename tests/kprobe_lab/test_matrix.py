"""The table of features, asked of simulators; with a guest, of a kernel."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kprobe_lab.matrix import page as matrix_page
from kprobe_lab.matrix.features import SECTIONS, Act, Define, Exists, Filter, Format, Option
from kprobe_lab.matrix.matrix import beside, columns
from kprobe_lab.matrix.measure import Answer, Column, measure, rows
from kprobe_sim import SimulatedKernel
from kprobe_sim.builds.portable.file import packed
from kprobe_sim.builds.profile import PROFILES
from kprobe_vm import cli

_UNKNOWN = "trace_kprobe: Unknown type is specified"
VOID = {"meta", "input", "col", "br"}


# What these kernels say of rows that name functions which they have by other names, and of an event without arrays.
OLD = {
    "4.9": [
        (Define("r:x do_sys_openat2"), Answer("ok", "r:kprobes/x do_sys_open")),
        (Filter("dfd == -100"), Answer("ok", "dfd == -100")),
        (Filter("how.function == do_sys_openat2"), Answer("refused", "", "EINVAL")),
    ],
    "5.4": [
        (Define("r:x do_sys_openat2"), Answer("ok", "r1:kprobes/x do_sys_open")),
        (Define("-:g/x", ("p:g/x do_sys_openat2",)), Answer("ok")),
        (Define("p:x do_sys_openat2 a=%di:u7"), Answer("refused", _UNKNOWN, "EINVAL", "p:x do_sys_open a=%di:u7", 22)),
        (Format("p:x do_sys_openat2 a=+0(%si):u8[4]"), Answer("ok", "u8 a[4];  size:4; signed:0;")),
        (Filter("dfd == -100"), Answer("ok", "dfd == -100")),
    ],
}


@pytest.mark.parametrize("series", OLD)
def test_a_kernel_without_error_log_or_dynamic_events_is_asked(series: str) -> None:
    answers = measure(SimulatedKernel(series).tracefs)
    assert len(answers) == len(rows())
    assert {answer.state for answer in answers} == {"ok", "refused", "absent"}
    messages = [answer.text for answer in answers if answer.state == "refused" and answer.text]
    assert bool(messages) == (series == "5.4")
    said = {(type(row.act), row.act): answer for row, answer in zip(rows(), answers, strict=True)}
    assert [(act, said[type(act), act]) for act, _ in OLD[series]] == OLD[series]


class Tags(HTMLParser):
    """Notes the columns that the rows of the table have, and what isn't closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.widths: list[int] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.widths.append(0)
        if tag in ("td", "th"):
            self.widths[-1] += int(dict(attrs).get("colspan") or 1)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def simulated() -> list[Column]:
    return columns([], ["sim:5.10", "sim:6.1"])


def column(release: str, said: str, *, is_simulator: bool = False) -> Column:
    """Return a column with one answer, of a kernel or a simulator."""
    return Column(".".join(release.split(".")[:2]), release, "", (Answer(said),), is_simulator=is_simulator)


def test_builds_of_one_series_stand_beside_the_simulators_of_their_releases() -> None:
    asked = [
        *(column("6.12.117-amd64", "a"), column("6.12.117-rt-amd64", "b"), column("6.1.190", "c")),
        column("6.12.117-rt-amd64", "d", is_simulator=True),
        column("6.12.117-amd64", "e", is_simulator=True),
        column("6.1.43", "f", is_simulator=True),
        column("7.2.13", "g", is_simulator=True),
    ]
    found = beside(dict(enumerate(asked)))
    assert [(one.name, one.answers[0].state, one.simulated and one.simulated[0].state) for one in found] == [
        ("6.12.117-amd64", "a", "e"),
        ("6.12.117-rt-amd64", "b", "d"),
        ("6.1", "c", "f"),
        ("simulator 7.2", "g", None),
    ]


@pytest.mark.slow
def test_a_simulator_is_a_profile_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.kprofile"
    path.write_bytes(packed(PROFILES / "6.1.0-54-cloud-amd64"))
    (by_path, by_series) = columns([], [f"sim:{path}", "sim:6.1"])
    assert by_path == by_series
    assert by_path.name == "simulator 6.1.0-54-cloud-amd64"  # two of one series


def answers(found: list[Column], act: Act) -> list[Answer]:
    index = [(type(row.act), row.act) for row in rows()].index((type(act), act))
    return [column.answers[index] for column in found]


def test_rows() -> None:
    acts = [(type(row.act), row.act) for row in rows()]
    assert len(acts) > 100
    assert len(set(acts)) == len(acts)
    assert len({section.title for section in SECTIONS}) == len(SECTIONS)


def test_columns(simulated: list[Column]) -> None:
    assert [(column.name, column.release) for column in simulated] == [
        ("simulator 5.10", "5.10.0-46-cloud-amd64"),
        ("simulator 6.1", "6.1.0-54-cloud-amd64"),
    ]
    assert {len(column.answers) for column in simulated} == {len(rows())}


# What 5.10.262 and 6.1.190 answer.
@pytest.mark.parametrize(
    ("act", "old", "new"),
    [
        (
            Define("r:x do_sys_openat2"),
            Answer("ok", "r1:kprobes/x do_sys_openat2"),
            Answer("ok", "r10:kprobes/x do_sys_openat2"),
        ),
        (
            Define("p:x no_such_function"),
            Answer("refused", "trace_kprobe: Invalid probed address or symbol", "ENOENT", "p:x no_such_function", 4),
            Answer("refused", "trace_kprobe: Invalid probed address or symbol", "ENOENT", "p:x no_such_function", 4),
        ),
        (Define("-:x", ("p:x do_sys_openat2",)), Answer("ok"), Answer("ok")),
        (Define(" -:x", ("p:x do_sys_openat2",)), Answer("ok"), Answer("refused", "", "EINVAL")),
        (
            Format("p:x do_sys_openat2 a=+0(%si):u8[4]"),
            Answer("ok", "u8 a[4];  size:4; signed:0;"),
            Answer("ok", "u8 a[];  size:4; signed:0;"),
        ),
        (Filter("dfd == -100"), Answer("ok", "dfd == -100"), Answer("ok", "dfd == -100")),
        (
            Filter("nosuch == 1"),
            Answer("refused", "event filter parse error: Field not found", "EINVAL", "nosuch == 1", 7),
            Answer("refused", "event filter parse error: Field not found", "EINVAL", "nosuch == 1", 7),
        ),
        (Option("hash-ptr"), Answer("absent"), Answer("ok", "on")),
        (Exists("touched_functions"), Answer("absent"), Answer("absent")),
    ],
    ids=repr,
)
def test_answers(simulated: list[Column], act: Act, old: Answer, new: Answer) -> None:
    assert answers(simulated, act) == [old, new]


def test_nothing_is_left_behind() -> None:
    """The order of rows doesn't count: a second round gives the same answers."""
    first, second = columns([], ["sim:6.1"]), columns([], ["sim:6.1"])
    assert first == second


def test_html(simulated: list[Column]) -> None:
    page = matrix_page.html(simulated)
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert set(tags.widths) == {3}
    assert len(tags.widths) == 1 + len(rows()) + len(SECTIONS)
    assert re.search(r'<td class="refused" colspan="2"><b>✗ EINVAL</b> event filter parse error: Field not found', page)
    assert '<pre class="caret">nosuch == 1\n<i>       ^</i></pre>' in page
    assert "<script" not in page
    assert "http" not in page


def test_markdown(simulated: list[Column]) -> None:
    page = matrix_page.markdown(simulated)
    assert "| return probe | `r:x do_sys_openat2` | ✓ | ✓ |\n" in page
    assert "    simulator 5.10: ✓\n        r1:kprobes/x do_sys_openat2\n    simulator 6.1: ✓\n" in page
    assert "        nosuch == 1\n               ^\n" in page
    tables = [line for line in page.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in tables} == {5}


def test_a_simulator_that_differs(simulated: list[Column]) -> None:
    kernel, other = simulated
    column = kernel._replace(name="5.10", is_simulator=False, simulated=other.answers)
    assert column.differences == sum(a != b for a, b in zip(kernel.answers, other.answers, strict=True)) > 5
    page = matrix_page.html([column])
    assert '<div class="sim"><b>≠ simulator 5.10: ✓</b><pre>r10:kprobes/x do_sys_openat2</pre></div>' in page
    assert page.count('<div class="sim">') == column.differences
    assert "| `r:x do_sys_openat2` | ✓ ≠ |\n" in matrix_page.markdown([column])


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["-q", "matrix", "--simulator", "sim:6.1", "--out", str(tmp_path / "new")]) == 0
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"kernels.md", "kernels.html"}
    assert capsys.readouterr().out == f"simulator 6.1\t6.1.0-54-cloud-amd64\t{len(rows())} rows\n"


def test_nothing_to_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("KPROBE_VM_CACHE", str(tmp_path / "empty"))
    assert cli.main(["-q", "matrix", "--offline", "--kernel", "6.1", "--out", str(tmp_path)]) == 2
    assert "no kernel and no simulator to ask" in capsys.readouterr().err


@pytest.mark.vm
def test_a_kernel(series: str) -> None:
    (column,) = columns([series], [])
    assert column.name == series
    assert not column.is_simulator
    assert answers([column], Define("p:x do_sys_openat2")) == [Answer("ok", "p:kprobes/x do_sys_openat2")]
    (refused,) = answers([column], Filter("nosuch == 1"))
    assert refused == Answer("refused", "event filter parse error: Field not found", "EINVAL", "nosuch == 1", 7)
    assert "fault" not in {answer.state for answer in column.answers}
