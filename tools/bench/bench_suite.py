"""Developers run `make bench-vm` after a change to guests: the conformance suite on the simulator and on a guest.

    python tools/bench/bench_suite.py [KERNEL] [PATH...]

It compares the time of the tests and their fixtures, as pytest reports it.  Pytest's start, the imports, and the boot
that the first test waits for are left out.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree


class Run(NamedTuple):
    """One run of the suite: the tests that passed, seconds in tests, the longest of them, seconds altogether."""

    passed: int
    failed: int
    seconds: float
    longest: float
    whole: float


def run(spec: str, paths: list[str]) -> Run:
    """Run the suite on a backend."""
    with tempfile.TemporaryDirectory() as place:
        report = Path(place, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tracefs", spec]
        start = time.perf_counter()
        subprocess.run([*command, f"--junitxml={report}", *paths], stdout=subprocess.DEVNULL, check=False)
        whole = time.perf_counter() - start
        cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    failed = sum(case.find("failure") is not None or case.find("error") is not None for case in cases)
    passed = sum(case.find("skipped") is None for case in cases) - failed
    times = [float(case.get("time", "0")) for case in cases]
    longest = max(times, default=0.0)
    return Run(passed, failed, sum(times), longest, whole)


def main() -> int:
    kernel, *paths = sys.argv[1:] or ["6.1"]
    results = {kind: run(f"{kind}:{kernel}", paths or ["tests/conformance"]) for kind in ("sim", "vm")}
    for kind, result in results.items():
        print(
            f"{kind}:{kernel:<5} {result.passed} passed, {result.failed} failed, {result.seconds:8.2f} s in tests"
            f" (the longest {result.longest:.2f} s), {result.whole:.1f} s altogether"
        )
    sim, vm = results["sim"], results["vm"]
    # the first test on a guest waits for its boot
    print(f"the guest takes {(vm.seconds - vm.longest) / sim.seconds:.0f} times as long as the simulator")
    return 0


if __name__ == "__main__":
    sys.exit(main())
