"""What `make bench` makes of what it measured: kinds of machines, their history, and what is worse than recorded."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).parent.parent / "tools" / "bench"
CPUINFO = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz\nflags\t: fpu\n"


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(TOOLS)
    return importlib.import_module("bench_history")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(TOOLS)
    return importlib.import_module("bench")


def landed(history: Any, kind: str = "amd-epyc-2cores-py3.11", date: str = "2026-03-01", **ratios: float) -> Any:
    results = {key: history.Result(ratio / 1000, ratio) for key, ratio in ratios.items()}
    return history.Landed(kind, "0123abc", date, results)


def test_a_kind_of_machine_is_its_cpu_its_cores_and_its_python(history: Any) -> None:
    assert history.kind(CPUINFO, 2, "3.11.7") == "intel-xeon-platinum-8370c-2.80ghz-2cores-py3.11"


def test_what_is_written_last_is_read(history: Any, tmp_path: Path) -> None:
    history.write(tmp_path, landed(history, one=3.0))
    path = history.write(tmp_path, landed(history, date="2026-04-01", one=1.234567))
    assert path.name == "amd-epyc-2cores-py3.11.jsonl"
    assert path.read_text().splitlines()[1] == (
        '{"commit": "0123abc", "date": "2026-04-01", "figures": {"one": [0.001235, 1.235]}}'
    )
    found = history.last(tmp_path, "amd-epyc-2cores-py3.11")
    assert found.results == {"one": (0.001235, 1.235)}
    assert (found.commit, found.date) == ("0123abc", "2026-04-01")


def test_without_a_history_of_the_kind_the_newest_of_all_is_read(history: Any, tmp_path: Path) -> None:
    assert history.last(tmp_path, "arm-4cores-py3.13") is None
    history.write(tmp_path, landed(history, "a", "2026-04-02", one=1.0))
    history.write(tmp_path, landed(history, "b", "2026-04-01", one=2.0))
    assert history.last(tmp_path, "b").kind == "b"
    assert history.last(tmp_path, "arm-4cores-py3.13").kind == "a"


def test_worse_is_more_than_1_3_times_the_ratio_the_worst_first(history: Any) -> None:
    before = landed(history, one=1.0, two=2.0, three=3.0, gone=1.0).results
    now = landed(history, one=1.25, two=4.0, three=12.0, new=100.0).results
    assert history.worse(now, before) == [("three", 12.0, 3.0), ("two", 4.0, 2.0)]


def test_a_rate_is_the_better_the_higher(bench: Any) -> None:
    rate = bench.Figure("a", "a", "plain", "MB/s", most=50)
    assert rate.ratio(100.0, 400.0) == 4.0
    assert [rate.is_met(value, 1.0) for value in (49.0, 51.0)] == [False, True]
    time = bench.Figure("b", "b", "plain", most=12e-6)
    assert time.ratio(100.0, 400.0) == 0.25
    assert [time.is_met(value, 1.0) for value in (11e-6, 13e-6)] == [True, False]


def test_the_median_of_ratios_isn_t_the_ratio_of_medians(bench: Any) -> None:
    rounds = [{"a": 10.0, "plain": 1.0}, {"a": 20.0, "plain": 4.0}, {"a": 30.0, "plain": 5.0}]
    assert bench.result(bench.Figure("a", "a", "plain"), rounds) == ((20.0, 6.0), 4.0)


def test_a_line_with_an_older_checkout(bench: Any) -> None:
    figure = bench.Figure("a", "a hit", "a line", most=12e-6)
    line, result = bench.row(figure, [{"a": 20e-6, "a line": 1e-6}], [{"a": 50e-6, "a line": 1e-6}])
    assert " ".join(line.split()) == "a hit 20.0 µs! ≤ 12.0 µs a line 1.0 µs 20 50.0 µs 2.50 ×"
    assert result.ratio == pytest.approx(20)


def test_what_an_older_checkout_lacks_is_a_dash(bench: Any) -> None:
    figure = bench.Figure("a", "a call of calls()", "a line")
    line, _ = bench.row(figure, [{"a": 2e-6, "a line": 1e-6}], [{"a line": 1e-6}])
    assert line.split()[-2:] == ["—", "—"]


def test_each_figure_has_a_key_of_its_own(bench: Any) -> None:
    keys = [figure.key for group in bench.bench_groups.GROUPS for figure in group.figures]
    assert len(keys) == len(set(keys))
    names = [group.name for group in bench.bench_groups.GROUPS]
    assert len(names) == len(set(names))


def test_a_group_is_measured_in_a_process_of_its_own(bench: Any) -> None:
    """Of a checkout: its packages, and the figures that are promised."""
    group = bench.bench_groups.named("filters")
    with bench.checkout("now", TOOLS.parent) as checkout:
        rounds = bench.measured(group, [checkout], 1)["now"]
    assert {figure.key for figure in group.figures} < set(rounds[0])
    assert all(value > 0 for value in rounds[0].values())
