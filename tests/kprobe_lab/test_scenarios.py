"""Scenarios on guests, and what two texts of one may differ in."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from kprobe_lab.scenarios.likeness import alike, difference
from kprobe_sim.scenarios.shipped import load, names

ROOT = Path(__file__).parents[2]
LINE = (
    b'             cat-4763    [000] .....    10.000102: ent: (do_sys_openat2+0x0/0x170) dfd=-100 s="/etc/hostname"\n'
)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (b"cat-47 [000] ..... 10.000102: ent: (x)", b"cat-47 [000] .n...    99.123456: ent: (x)"),
        (b"cat-47 (     47) [000] ..... 10.000102: x", b"cat-47 (     47) [000] ..... 7.000102: x"),
        (b"cat-47 [001]     10.000102: ent: (x)", b"cat-47 [001]  7.000102: ent: (x)"),
        (b"cat-47 [001] .....           12: ent", b"cat-47 [001] .....            3: ent"),
        (b"     cat-47        0.....    1us!: ent", b"     cat-47        0.....  133us+: ent"),
        (b"42 0 10000102000 type: 1554", b"42 0 777 type: 1560"),
        (b"# latency: 0 us, #6/6, CPU#1 | (M:desktop", b"# latency: 0 us, #6/6, CPU#0 | (M:desktop"),
        (b" =>  <00000000004013a9>\n", b" =>  <0000000000401102>\n =>  <0000000000401000>\n"),
        (b"# 1 buf: 01 02 00 00", b"# 1 buf: 01 02 2f 65"),
    ],
)
def test_what_differs_by_nature(ours: bytes, theirs: bytes) -> None:
    assert ours != theirs
    assert difference(ours, theirs) == ""


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (b"cat-47 [000] ..... 10.000102: ent: (x)", b"cat-48 [000] ..... 10.000102: ent: (x)"),
        (b"cat-47 [000] ..... 10.000102: ent: (x)", b"cat-47 [001] ..... 10.000102: ent: (x)"),
        (b"cat-47 [000] ..... 10.000102: ent: (x)", b"cat-47 [000] d.... 10.000102: ent: (x)"),
        (b"cat-47 [000] ..... 10.000102: e: n=1", b"cat-47 [000] ..... 10.000102: e: n=2"),
        (b"cat-47 [000] ..... 10.000102: e", b"cat-47 [000] ..... 10.000102: e\n"),
        (LINE, LINE.replace(b"0x170", b"0x180")),
    ],
)
def test_what_does_not(ours: bytes, theirs: bytes) -> None:
    assert difference(ours, theirs)


def test_a_difference_is_told_with_its_line() -> None:
    assert difference(LINE + b"a\n", LINE + b"b\n") == "line 2: simulator b'a\\n', guest b'b\\n'"
    assert difference(LINE, LINE + LINE) == "the simulator's text has 1 lines, the guest's 2"
    assert b"TIME: ent:" in alike(LINE)


@pytest.mark.vm
@pytest.mark.timeout(1800)
def test_guests_print_what_the_simulator_does(
    series: str, loaded: Callable[[Path], ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    """All scenarios that ship, with all options that change the text."""
    assert loaded(ROOT / "tools" / "guests" / "scenarios.py").hold(series, "all", names()) == []
    told = capsys.readouterr().out.splitlines()
    assert "cpu_wide isn't played: no guest here has 1,100 CPUs" in "\n".join(told)
    assert int(told[-1].split(" scenarios, ")[1].split(" texts")[0]) > 1000


@pytest.mark.vm
def test_a_scenario_of_ones_own_on_a_guest(series: str) -> None:
    from kprobe_lab.scenarios.stage import render

    table = {
        "definitions": ["p:ent do_sys_openat2 dfd=%di:s32 s=+0(%si):string"],
        "call": [{"open": "/etc/hostname", "returns": 3, "task": "my app-4263/4262", "cpu": 1}],
    }
    rendering = render(table, series, ["record-tgid"])
    assert b"          my app-4263    (   4262) [001] " in rendering.text
    (event,) = rendering.truth
    assert (event["task"], event["pid"], event["tgid"], event["cpu"]) == ("my app", 4263, 4262, 1)
    assert event["fields"] == {"dfd": -100, "s": "/etc/hostname"}
    assert "timestamp" not in event


def test_all_that_can_be_played_says_so() -> None:
    """A scenario that no guest can play says why, or shows why in its calls."""
    from kprobe_sim.scenarios.scenario import scenario_of

    unplayable = [name for name in names() if scenario_of(load(name)).unlike_a_guest()]
    assert unplayable == [
        *("cpu_wide", "flags", "function_suffixes", "latency_pauses", "module_function", "names_forgotten"),
        *("place_wide", "raw_syscalls", "rt_columns", "sched_switch", "time_wide", "times_out_of_order", "workqueue"),
    ]


@pytest.mark.vm
def test_what_fools_a_parser_is_confirmed_on_a_guest(series: str, capsys: pytest.CaptureFixture[str]) -> None:
    from kprobe.cli import main

    line = r"{\"type\":\"event\",\"name\":\"%s\",\"task\":\"%s\"}\n"
    program = r"""/^ .*-[0-9]+ +\[/ { split($1, who, "-"); sub(":", "", $5); printf "LINE", $5, who[1] }"""
    program = program.replace("LINE", line)
    words = ["--break", "--kernels", "7.2", "--rules", "comm-dash", "--confirm", f"vm:{series}"]
    assert main(["test-parser", *words, "--", "awk", program]) == 1
    text = capsys.readouterr().out.partition(f"confirmed on vm:{series}, whose text is:\n")[2]
    assert re.search(
        r"^ +a-a-2841 +\[000\] .*: ent: \(do_sys_openat2\+0x0/0x[0-9a-f]+\) s=\"/etc/passwd\"$", text, re.M
    )
    assert '  task expected  "a-a"\n  task said      "a"\n' in text
