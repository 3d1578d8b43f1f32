"""Developers run `make bench-parse` after a change to a parser: ours beside others; docs/evidence/bench-parse.md.

    python tools/bench/bench_parse.py [--rounds 5] [--prepare]

Each way of parsing is a process of its own (bench_parse_worker.py).  Every round runs all of them, forwards and
backwards in turn.  The figures are medians of CPU time, children included, without imports and one-time compilation.
trappy and LISA are slow, so they get a part of the lines, and those without the probed address, which they can't read.
Their environments and the simulated events are kept in ~/.cache/kprobe-bench; --prepare only makes them.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from bench_parse_data import EVENTS, LINES, write

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "evidence" / "bench-parse.md"
HOME = Path.home() / ".cache" / "kprobe-bench"
PART = 50_000
WARM = 5000
NEEDS = {"trappy": ("trappy==6.0.1", "pandas<2", "numpy<2"), "lisa": ("lisa-linux==3.1.0",)}
WITHOUT_PLACE = re.compile(rb": (my\w+): \([^)]*\) ")


class Way(NamedTuple):
    """One way: what it is, on which lines, and what it is to be compared with: (way, at least or at most times)."""

    name: str
    what: str
    aims: tuple[tuple[str, str, float], ...] = ()
    part: str = ""


WAYS = (
    Way("wc", "`wc -l`"),
    Way("loop", "a Python loop over the lines"),
    Way("re", "one `re` match a line, `groups()`"),
    Way("stream", "text to typed events, streaming", (("trappy", "≥", 7), ("re", "≤", 3.5))),
    Way("arrow", "text to Arrow", (("trappy", "≥", 17),)),
    Way("parquet", "text to Parquet"),
    Way("raw_arrow", "raw pages to Arrow", (("trace_cmd", "≥", 5),)),
    Way("raw_parquet", "raw pages to Parquet", (("trace_cmd", "≥", 5),)),
    Way("trace_cmd", "`trace-cmd report`"),
    Way("trappy", "trappy 6.0.1", part="slow"),
    Way("lisa", "LISA 3.1.0", part="slow"),
)
MEMORY = {"stream": 5.0, "arrow": 100.0, "parquet": 100.0, "raw_arrow": 100.0, "raw_parquet": 100.0}


def prepare() -> None:
    """Make what is missing: the events, and the environments of trappy and LISA."""
    if shutil.which("trace-cmd") is None:
        sys.exit("trace-cmd is missing: on Debian `apt-get install trace-cmd`")
    data = HOME / "data"
    for home, lines in ((data, LINES), (data / "warm", WARM)):
        if not (home / "trace.dat").exists():
            home.mkdir(parents=True, exist_ok=True)
            print(f"making {lines} lines ...", flush=True)
            write(home, lines)
    for warm, lines in (("", PART), ("warm", WARM)):
        target = HOME / "slow" / warm / "trace.txt"
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(data / "trace.txt", "rb") as file:
                # what they can't read is left out
                found = (line for line in file if WITHOUT_PLACE.search(line) is not None)
                target.write_bytes(b"".join(WITHOUT_PLACE.sub(rb": \1: ", next(found)) for _ in range(lines)))
    for name, needs in NEEDS.items():
        if not (HOME / name / "ready").exists():
            print(f"installing {needs[0]} ...", flush=True)
            subprocess.run([sys.executable, "-m", "venv", HOME / name], check=True)
            subprocess.run([HOME / name / "bin" / "pip", "install", "-q", *needs], check=True)
            (HOME / name / "ready").touch()


def run(way: str, part: str = "") -> tuple[float, float]:
    """Return what a way prints: CPU seconds and MiB."""
    python = HOME / way / "bin" / "python" if way in NEEDS else Path(sys.executable)
    worker = ROOT / "tools" / "bench" / "bench_parse_worker.py"
    command = [str(python), "-W", "ignore", str(worker), way, str(HOME / (part or "data"))]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{way} failed:\n{done.stderr}")
    first, second = done.stdout.split()[-2:]
    return float(first), float(second)


def measure(rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the microseconds of a line (an event, of pages) and the MiB of each way."""
    with open(HOME / "data" / "trace.txt", "rb") as file:
        lines = sum(1 for _ in file)
    seconds: dict[str, list[float]] = {way.name: [] for way in WAYS}
    memory: dict[str, float] = {}
    for number in range(rounds):
        for way in WAYS if number % 2 == 0 else reversed(WAYS):
            print(f"round {number + 1}: {way.name}", file=sys.stderr, flush=True)
            took, held = run(way.name, way.part)
            seconds[way.name].append(took)
            memory[way.name] = max(held, memory.get(way.name, 0.0))
    # all but the slow ones read the same, so the same lines are counted of pages too
    counts = {way.name: PART if way.part else lines for way in WAYS}
    return {name: statistics.median(found) / counts[name] * 1e6 for name, found in seconds.items()}, memory


def table(costs: dict[str, float], memory: dict[str, float]) -> list[str]:
    """Return the rows of the table."""
    rows = ["| what | µs a line | × trappy | × `re` | MiB | aim |", "|---|---|---|---|---|---|"]
    for way in WAYS:
        cost = costs[way.name]
        aims = []
        for other, sign, times in way.aims:
            ratio = cost / costs[other] if sign == "≤" else costs[other] / cost
            is_met = ratio <= times if sign == "≤" else ratio >= times
            aims.append(f"{sign} {times:g} × {other}: {ratio:.1f} {'✓' if is_met else '✗'}")
        if way.name in MEMORY:
            aims.append(f"≤ {MEMORY[way.name]:g} MiB {'✓' if memory[way.name] <= MEMORY[way.name] else '✗'}")
        rows.append(
            f"| {way.what} | {cost:.2f} | {costs['trappy'] / cost:.1f} | {cost / costs['re']:.2f} | "
            f"{memory[way.name]:.0f} | {', '.join(aims)} |"
        )
    return rows


def page(rounds: int) -> str:
    """Measure, and return the page."""
    before = os.getloadavg()[0]
    costs, memory = measure(rounds)
    half, most = run("latency")
    report = subprocess.run(["trace-cmd", "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"version ([\w.]+)", report)
    versions = ", ".join(f"{name} {version(name)}" for name in ("pyarrow", "numba", "numpy"))
    lines = [
        "# Parsing, measured",
        "",
        f"`make bench-parse`, one run: {LINES:,} lines of the simulator (tools/bench/bench_parse_data.py: opens,",
        f"returns, numbers, arrays, faults, symbols, stacks, lost events; {len(EVENTS)} probes), read by each way in a",
        f"process of its own, in {rounds} rounds of alternating order. CPU time, children included, imports and",
        f"compiling not; medians. trappy and LISA read {PART:,} of the lines, without places, which they can't",
        "read. A line of raw pages is one of the same text. MiB: the most over what was there before.",
        "",
        *table(costs, memory),
        "",
        f"From the write into a pipe to the event: p50 {half:.0f} µs, p99 {most:.0f} µs "
        f"(aim: p50 below 60 {'✓' if half < 60 else '✗'}).",
        "",
        f"{os.cpu_count()} processors, load {before:.1f} before and {os.getloadavg()[0]:.1f} after; Python "
        f"{platform.python_version()}, {versions}, trace-cmd {found[1] if found else '?'}.",
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="measure how fast traces are parsed")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--prepare", action="store_true", help="make the events and environments, and no more")
    asked = parser.parse_args()
    prepare()
    if not asked.prepare:
        text = page(asked.rounds)
        PAGE.write_text(text)
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
