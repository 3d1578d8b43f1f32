"""The verb `diff` between two simulators: cut into shards, shrunk, interrupted."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kprobe_lab.campaign.diff import plan_of
from kprobe_lab.campaign.shards import Plan, Stretch, lacking, stretches
from kprobe_sim.builds.profile import load
from kprobe_vm import cli

PLAN = Plan("6.1", "sim:6.12")


def test_a_campaign_is_cut_by_its_operations_alone() -> None:
    assert list(stretches(PLAN, 7, 600, "hists")) == [
        Stretch(PLAN, 7, 0, 250, "hists"),
        Stretch(PLAN, 7, 1, 250, "hists"),
        Stretch(PLAN, 7, 2, 100, "hists"),
    ]
    assert [str(shard) for shard in stretches(PLAN, 7, 251)] == [
        "operations 0 to 249 of seed 7",
        "operations 250 to 250 of seed 7",
    ]


@pytest.mark.slow
def test_what_two_simulators_differ_in(capfd: pytest.CaptureFixture[str]) -> None:
    command = ["diff", "--kernel", "6.1", "--against", "sim:6.12", "--operations", "1", "--area", "controls"]
    assert cli.main([*command, "--seed", "5"]) == 1
    printed = capfd.readouterr()
    assert "kprobe-vm: found in shard 0: controls: " in printed.err
    assert re.fullmatch(
        r"--- controls: trace_options\n    Read\(path='trace_options'\)\n  sim:    .*\n"
        r"  kernel: \[b'nofields', b'trace_printk_dest'\]\n"
        r"25 operations in \d+ s, seed 5; differences: controls 1\n",
        printed.out,
    )


def test_no_difference_is_status_0(capfd: pytest.CaptureFixture[str]) -> None:
    command = ["-q", "diff", "--kernel", "6.1", "--against", "sim:6.1", "--operations", "20", "--jobs", "2"]
    assert cli.main(command) == 0
    printed = capfd.readouterr()
    assert re.fullmatch(r"[2-9]\d operations in \d+ s, seed 0; differences: none\n", printed.out)
    assert printed.err == ""


def test_a_simulator_of_a_path_against_any_guest(tmp_path: Path) -> None:
    profile = str(load("6.1").path)
    assert plan_of(profile, "") == Plan(profile, "6.1.0-54-cloud-amd64")
    assert plan_of(profile, "vm:6.12-rt-amd64") == Plan(profile, "6.12-rt-amd64")
    assert plan_of("6.12", f"vm:{tmp_path}/bzImage") == Plan("6.12", f"{tmp_path}/bzImage")
    assert plan_of("6.12", f"sim:{profile}") == Plan("6.12", f"sim:{profile}")
    assert lacking(Plan("6.12", f"{tmp_path}/bzImage"), shrinks=False) == f"it can't read {tmp_path}/bzImage"


def test_what_is_no_simulator(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["diff", "--against", "sim:1.2"]) == 2
    assert capsys.readouterr().err.startswith("kprobe-vm diff: ")


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.slow
def test_an_interrupt_ends_the_workers_and_shows_what_was_merged() -> None:
    command = ["diff", "--kernel", "6.1", "--against", "sim:6.12", "--seconds", "1000"]
    command += ["--area", "controls", "--jobs", "2"]
    with subprocess.Popen(
        [sys.executable, "-m", "kprobe_vm", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        while "found in shard" not in (heard := process.stderr.readline()):
            assert heard, "it ended without a word"
        while len(workers := children(process.pid)) < 2:  # one may have found something before the other is started
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "kprobe-vm: interrupted: results so far\n" in err
    assert re.search(r"\n[1-9]\d* operations in \d+ s, seed 0; differences: .*\d\n$", out)
    assert len(workers) == 2
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
