"""`kprobe test-parser --dat`: trace.dat files of scenarios read by trace-cmd, and by ours."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kprobe.cli import main

ADAPTER = Path(__file__).parents[3] / "docs" / "readers" / "trace_cmd_reader.py"
OURS = f'{sys.executable} -m kprobe parse --format ndjson "$KPROBE_DAT"'
TRACE_CMD = pytest.param((sys.executable, str(ADAPTER)), marks=pytest.mark.requires("trace-cmd"), id="trace-cmd")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Two scenarios with pages, and one whose trace_pipe is read, which leaves none."""
    for scenario in ("string_spaces", "arrays", "lost_in_pipe"):
        argv = [sys.executable, "-m", "kprobe_sim", "text", scenario, "--kernels", "6.12", "-o", str(tmp_path)]
        subprocess.run(argv, check=True)
    return tmp_path


def entries(directory: Path, capsys: pytest.CaptureFixture[str], *command: str) -> tuple[int, list[Any], list[Any]]:
    status = main(["test-parser", "--dat", "--types", "event", "--json", "--corpus", str(directory), "--", *command])
    found = json.loads(capsys.readouterr().out)
    counts = [(one["name"], one["right"], one.get("wrong", 0), one.get("missing", 0)) for one in found["entries"]]
    return status, counts, [(one["key"], one["expected"], one["said"]) for one in found["examples"]]


@pytest.mark.requires("trace-cmd")
def test_trace_cmd(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its arrays of numbers wider than a byte are wrong, all else is right."""
    status, counts, examples = entries(directory, capsys, sys.executable, str(ADAPTER))
    assert (status, counts) == (1, [("arrays", 1, 2, 0), ("string_spaces", 4, 0, 0)])
    assert examples[0] == ("fields.b", [25972, 29816], [0, 0])


@pytest.mark.slow
@pytest.mark.parametrize("command", [pytest.param(("sh", "-c", OURS), id="ours"), TRACE_CMD])
def test_what_only_the_text_has_is_not_held_against_a_reader_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    """Times since the trace began, functions' sizes; and strings with quotes and newlines, static events, are read."""
    for scenario in ("latency_format", "symbols", "string_newline", "raw_syscalls"):
        argv = [sys.executable, "-m", "kprobe_sim", "text", scenario, "--kernels", "6.1", "-o", str(tmp_path)]
        subprocess.run(argv, check=True)
    right = [("latency_format", 6, 0, 0), ("raw_syscalls", 8, 0, 0), ("string_newline", 5, 0, 0), ("symbols", 3, 0, 0)]
    assert entries(tmp_path, capsys, *command)[:2] == (0, right)
    first = json.loads((tmp_path / "6.1" / "latency_format" / "trace.dat.jsonl").read_text().partition("\n")[0])
    assert (first["timestamp"], first["clock"]) == (10000102000, "time")


def test_ours(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entries(directory, capsys, "sh", "-c", OURS) == (
        0, [("arrays", 3, 0, 0), ("string_spaces", 4, 0, 0)], [],
    )  # fmt: skip


def test_a_corpus_without_any(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test-parser", "--dat", "--corpus", str(corpus), "--", "true"]) == 2
    assert "none of these texts has a trace.dat" in capsys.readouterr().err
