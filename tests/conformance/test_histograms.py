"""Histograms that count: what the files `trigger` and `hist` and the error log say, as recorded from a 6.1 kernel.

fixtures/histograms/6.1.jsonl     one case a line: triggers, and what came of them
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

FIXTURE = Path(__file__).parents[2] / "fixtures" / "histograms" / "6.1.jsonl"
CASES = [json.loads(line) for line in FIXTURE.read_text().splitlines()]
RECORD = os.environ.get("KPROBE_RECORD_HISTOGRAMS", "")
NUMBERS = "p:h ksys_fadvise64_64 a=%di:u32 b=%si:s64 c=%dx:u64"
STRINGS = "p:h ksys_fadvise64_64 a=%di:u32 b=%si:s64 c=%dx:u64 s=+0(%si):string"
MEMORY = 0x10000000


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
    pid = re.compile(rf"(?<=\[) *{workload.pid}(?=\])")
    found = {
        "triggers": triggers,
        "strings": strings,
        "results": results,
        "trigger": tracefs.read(trigger).decode(),
        "hist": pid.sub("PID", tracefs.read(hist).decode()),
        "log": re.sub(r"\[ *[\d.]+\]", "[T]", tracefs.read("error_log").decode()),
    }
    for line in reversed(found["trigger"].splitlines()):  # what refers to others' variables stands last
        if not line.startswith("#"):
            put(tracefs, trigger, "!" + line.rpartition(" [")[0])
    with contextlib.suppress(OSError):
        tracefs.write(trigger, b"\n", truncate=True)  # what isn't found as it is shown
    tracefs.write("kprobe_events", b"-:h")
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: "; ".join(case["triggers"]))
def test_histograms(tracefs: Any, workload: Any, build: Build, case: dict[str, Any]) -> None:
    if not build.banner.startswith("Linux version 6.1."):
        pytest.skip("recorded from a 6.1 kernel; others name and sort some things otherwise")
    found = answers(tracefs, workload, case["triggers"], case["strings"])
    if RECORD:
        with open(RECORD, "a", encoding="utf-8") as file:
            file.write(json.dumps(found, ensure_ascii=False) + "\n")
        return
    assert found == case
