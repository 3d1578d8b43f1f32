"""`make bench RECORD=1` and `make bench-check` import it: recorded figures, and a run compared with the last.

benchmarks/ has one file of JSON Lines for each kind of machine.  A line holds the commit, the date (UTC), and for each
figure its value and its ratio to its anchor.  Only ratios are compared: times are those of one machine and moment.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
HISTORY = ROOT / "benchmarks"
WORSE = 1.3  # how many times the landed ratio a ratio may be: two runs of one commit differ that much at times


class Result(NamedTuple):
    """What a figure came to: its value (seconds, bytes or MB/s), and how many times its anchor that is."""

    value: float
    ratio: float


class Landed(NamedTuple):
    """The figures of a commit, as they were recorded on a machine of some kind."""

    kind: str
    commit: str
    date: str
    results: dict[str, Result]


class Worse(NamedTuple):
    """A figure whose ratio is worse than the landed one."""

    key: str
    now: float
    landed: float


def kind(cpuinfo: str, cores: int, python: str) -> str:
    """Return the name of a kind of machine: model of its CPU, number of cores, minor version of Python."""
    found = re.search(r"^model name\s*:\s*(.*)$", cpuinfo, re.MULTILINE)
    model = re.sub(r"\((r|tm)\)|\bcpu\b|\bprocessor\b|@", " ", (found[1] if found else platform.machine()).lower())
    words = re.findall(r"[a-z0-9.]+", model)
    return "-".join([*words, f"{cores}cores", "py" + ".".join(python.split(".")[:2])])


def this_kind() -> str:
    """Return the kind of this machine."""
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text() if cpuinfo.exists() else ""
    return kind(text, os.cpu_count() or 1, platform.python_version())


def commit() -> str:
    """Return the commit of the checkout, with a plus if it has changes; "" outside of git."""
    done = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    changed = subprocess.run(["git", "-C", ROOT, "diff", "--quiet", "HEAD"], capture_output=True).returncode == 1
    return done.stdout.strip() + "+" * changed


def write(place: Path, landed: Landed) -> Path:
    """Append to the history of the kind; return its file."""
    place.mkdir(exist_ok=True)
    path = place / f"{landed.kind}.jsonl"
    results = {
        key: [float(f"{result.value:.4g}"), float(f"{result.ratio:.4g}")] for key, result in landed.results.items()
    }
    with path.open("a", encoding="utf-8") as file:
        print(json.dumps({"commit": landed.commit, "date": landed.date, "figures": results}), file=file)
    return path


def last(place: Path, kind: str) -> Landed | None:
    """Return what was recorded last on that kind of machine, else on any; None if there is no history."""
    files = [path for path in (place / f"{kind}.jsonl",) if path.exists()] or sorted(place.glob("*.jsonl"))
    found = [_last_line(path) for path in files]
    return max(found, key=lambda landed: landed.date, default=None)


def _last_line(path: Path) -> Landed:
    line = json.loads(path.read_text(encoding="utf-8").splitlines()[-1])
    results = {key: Result(*pair) for key, pair in line["figures"].items()}
    return Landed(path.stem, line["commit"], line["date"], results)


def worse(now: Mapping[str, Result], landed: Mapping[str, Result], most: float = WORSE) -> list[Worse]:
    """Return the figures whose ratio is more than `most` times the landed one, the worst first."""
    found = [
        Worse(key, result.ratio, landed[key].ratio)
        for key, result in now.items()
        if key in landed and result.ratio > most * landed[key].ratio
    ]
    return sorted(found, key=lambda one: one.now / one.landed, reverse=True)
