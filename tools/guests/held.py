"""Developers run `make vm-held` when a gate changes: simulators against guests; writes docs/evidence/held.md.

Usage: held.py [--brief] [KERNEL ...]; without a KERNEL it is all of the lock that comes with kprobe-vm.  The guest is
asked all questions, both are given the definitions of fixtures/definitions, and both run the conformance suite.  With
--brief the guest skips the suite, which saves a minute or two, and its column stays.  Rows of other kernels stay, too.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from kprobe_sim import SimulatedKernel
from kprobe_sim.builds.profile import load
from kprobe_vm.debian.lock import shipped
from kprobe_vm.machine.machine import Machine
from kprobe_vm.recording.booted import Booted
from kprobe_vm.recording.gates import ask

ROOT = Path(__file__).resolve().parents[2]
NOT_RUN = "–"
PAGE = ROOT / "docs" / "evidence" / "held.md"
DEFINITIONS = ROOT / "fixtures" / "definitions" / "observed.jsonl"
HEAD = """\
# How each kernel is held to its guest

Written by `make vm-held`, each row when that kernel was last held. *Asked* are the questions by which kernels are told
apart; *contradicted* those for which the version would have said something else; *unknown* the answers that no known
value fits; *missing* what wasn't there to be asked about, such as a loaded module. Of the definitions errno, listing,
`error_log` with its caret and `format` are compared: how many there were, and how many came out otherwise. The last two
columns are the conformance suite: passed, failed and skipped tests, – where it wasn't run; what a simulator skips needs
a real kernel.

| kernel | build | asked | contradicted | unknown | missing | definitions, different | simulator | guest |
|---|---|---|---|---|---|---|---|---|
"""
HASHED = re.compile(rb"0x(?:\(____ptrval____\)|0{8}[0-9a-f]{8})")  # an address, before it is hashed and after
STAMP = re.compile(rb"^\[[^\]]*\]", re.MULTILINE)


class Asked(NamedTuple):
    """What came of the questions and definitions."""

    release: str
    cells: tuple[str, ...]
    differs: bool


def main(words: Sequence[str]) -> int:
    """Hold kernels; return 0 if nothing failed or differed."""
    is_brief = words[:1] == ["--brief"]
    kernels = list(words[is_brief:]) or list(shipped().kernels)
    failed = False
    for kernel in kernels:
        with Machine(kernel) as machine:
            asked = held(machine)
        before = rows().get(kernel, NOT_RUN).split(" | ")[-1]
        suites = [conformance(f"sim:{asked.release}"), before if is_brief else conformance(f"vm:{kernel}")]
        row = " | ".join((kernel, asked.release, *asked.cells, *suites))
        write(kernel, row)
        print(row, flush=True)
        failed = failed or asked.differs or any(", 0, " not in suite for suite in suites if suite != NOT_RUN)
    return 1 if failed else 0


def held(machine: Machine) -> Asked:
    """Ask a guest all questions, and put all definitions to it and to its simulator."""
    guest = Booted(machine)
    answers = ask(guest, load(machine.release).banner, lambda line: None)
    simulated = SimulatedKernel(machine.release).tracefs
    different = [line for line in definitions() if answer(simulated, line) != answer(machine.tracefs, line)]
    for line in different:
        print(f"{machine.release}: {line}", file=sys.stderr)
    counts = (len(answers.values), len(answers.contradicted), len(answers.unknown), len(answers.missing))
    return Asked(machine.release, (*map(str, counts), f"{len(definitions())}, {len(different)}"), bool(different))


def definitions() -> list[str]:
    """Return the definitions that are put to both sides."""
    lines = DEFINITIONS.read_text("utf-8").splitlines()
    return list(dict.fromkeys(json.loads(line)["input"] for line in lines))


def answer(tracefs: Any, definition: str) -> tuple[Any, ...]:
    """Return what comes of a definition: errno, listing, error log and format; nothing of it is left."""
    tracefs.write("error_log", b"", truncate=True)
    refused = 0
    try:
        tracefs.write("kprobe_events", f"{definition}\n".encode())
    except OSError as error:
        refused = error.errno or -1
    listing = tracefs.read("kprobe_events")
    log = STAMP.sub(b"", tracefs.read("error_log"))
    events = [line.split()[0].partition(b":")[2] for line in listing.splitlines()]
    formats = [_format(tracefs, event.decode()) for event in events]
    for event in events:
        tracefs.write("kprobe_events", b"-:" + event)
    return refused, HASHED.sub(b"HASHED", listing), log, [HASHED.sub(b"HASHED", text) for text in formats]


def _format(tracefs: Any, event: str) -> bytes:
    try:
        text: bytes = tracefs.read(f"events/{event}/format")
    except OSError as error:
        return str(error.errno).encode()
    return re.sub(rb"(?m)^ID: \d+$", b"ID", text)


def conformance(spec: str) -> str:
    """Run the conformance suite; return how many tests passed, failed and were skipped: "1680, 0, 2"."""
    with tempfile.TemporaryDirectory() as place:
        report = Path(place, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tracefs", spec]
        done = subprocess.run([*command, f"--junitxml={report}", "tests/conformance"], cwd=ROOT, capture_output=True)
        if not report.exists():
            raise SystemExit(done.stdout.decode() + done.stderr.decode())
        counts = ElementTree.parse(report).getroot().find("testsuite")
    assert counts is not None
    total, skipped = int(counts.attrib["tests"]), int(counts.attrib["skipped"])
    failed = int(counts.attrib["failures"]) + int(counts.attrib["errors"])
    if failed:
        print(done.stdout.decode(), file=sys.stderr)
    return f"{total - skipped - failed}, {failed}, {skipped}"


def rows() -> dict[str, str]:
    """Return the rows that the page has, by kernel."""
    lines = PAGE.read_text("utf-8").splitlines() if PAGE.exists() else []
    found = [line.removeprefix("| ").removesuffix(" |") for line in lines if re.match(r"\| \d", line)]
    return {row.partition(" ")[0]: row for row in found}


def write(kernel: str, row: str) -> None:
    """Put a kernel's row into the page, in the order of the lock."""
    order = list(shipped().kernels)
    found = rows() | {kernel: row}
    kernels = sorted(found, key=lambda name: order.index(name) if name in order else len(order))
    PAGE.write_text(HEAD + "".join(f"| {found[name]} |\n" for name in kernels), "utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
