"""Histograms that count: what the files `trigger` and `hist` and the error log say, as recorded from real kernels.

fixtures/histograms/SERIES.jsonl  one case a line: triggers, and what came of them; every series has the same cases
KPROBE_RECORD_HISTOGRAMS=FILE     writes the answers of the kernel under test to FILE instead of comparing them
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from .builds import Build

FIXTURES = Path(__file__).parents[2] / "fixtures" / "histograms"
RECORDED = {
    path.stem: [json.loads(line) for line in path.read_text("utf-8").splitlines()] for path in FIXTURES.glob("*.jsonl")
}
CASES = [(case["triggers"], case["strings"]) for case in RECORDED["6.1"]]
RECORD = os.environ.get("KPROBE_RECORD_HISTOGRAMS", "")
NUMBERS = "p:h ksys_fadvise64_64 a=%di:u32 b=%si:s64 c=%dx:u64"
STRINGS = "p:h ksys_fadvise64_64 a=%di:u32 b=%si:s64 c=%dx:u64 s=+0(%si):string"
MEMORY = 0x10000000
ADDRESS = re.compile(r"\b18446[0-6]\d{14}\b")  # of the kernel's own data, or several of them added up


def put(tracefs: Any, path: str, text: str) -> str:
    """Write, and return "ok" or the name of the errno."""
    try:
        tracefs.write(path, text.encode())
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "ok"


def answers(tracefs: Any, workload: Any, triggers: list[str], strings: bool) -> dict[str, Any]:
    """Return what comes of some triggers and some hits."""
    tracefs.write("kprobe_events", (STRINGS if strings else NUMBERS).encode())
    tracefs.write("error_log", b"\n", truncate=True)
    tracefs.write("snapshot", b"0")
    trigger, hist = "events/kprobes/h/trigger", "events/kprobes/h/hist"
    results = [put(tracefs, trigger, text) for text in triggers]
    if strings:
        for path in (b"/", b"/dev/null", b"/", b"a", b"/etc/hostname"):
            workload.fadvise(len(path), MEMORY, 3, data=path + b"\0")
    else:
        for number in range(24):
            workload.fadvise(900 + number * 7 % 9, 20 - 3 * number if number != 5 else 1 << 40, number * number)
    pid = re.compile(rf"(common_pid: .{{16}}\[) *{workload.pid}(?=\])")
    found = {
        "triggers": triggers,
        "strings": strings,
        "results": results,
        "trigger": tracefs.read(trigger).decode(),
        "hist": ADDRESS.sub("ADDRESS", pid.sub(r"\1PID", tracefs.read(hist).decode())) if has_hist(tracefs) else None,
        "log": re.sub(r"\[ *[\d.]+\]", "[T]", tracefs.read("error_log").decode()),
    }
    for line in reversed(found["trigger"].splitlines()):  # what refers to others' variables stands last
        if not line.startswith("#"):
            put(tracefs, trigger, "!" + line.rpartition(" [")[0])
    with contextlib.suppress(OSError):
        tracefs.write(trigger, b"\n", truncate=True)  # what isn't found as it is shown
    tracefs.write("kprobe_events", b"-:h")
    return found


def has_hist(tracefs: Any) -> bool:
    """True if the kernel offers hist triggers."""
    return "hist:keys=" in tracefs.read("README").decode()


def expected(build: Build, number: int) -> dict[str, Any]:
    """Return what a real kernel of that build answered; only Debian's 5.10 has no CONFIG_HIST_TRIGGERS."""
    triggers, strings = CASES[number]
    series = ".".join(re.findall(r"\d+", build.banner)[:2])
    if series == "5.10":
        return {
            "triggers": triggers,
            "strings": strings,
            "results": ["EINVAL"] * len(triggers),
            "trigger": "# Available triggers:\n# traceon traceoff snapshot stacktrace enable_event disable_event\n",
            "hist": None,
            "log": "",
        }
    return dict(RECORDED[series][number])


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: "; ".join(CASES[number][0]))
def test_histograms(tracefs: Any, workload: Any, build: Build, number: int) -> None:
    found = answers(tracefs, workload, *CASES[number])
    if RECORD:
        with open(RECORD, "a", encoding="utf-8") as file:
            file.write(json.dumps(found, ensure_ascii=False) + "\n")
        return
    assert found == expected(build, number)
