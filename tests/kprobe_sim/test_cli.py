"""What kprobe-sim says on standard output, and what becomes of it if nobody can have it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def run(module: str, word: str, output: int) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", module, word], stdout=output, stderr=subprocess.PIPE)


@pytest.mark.parametrize(
    ("module", "word", "status"),
    [("kprobe_sim.cli", "--version", 1), ("kprobe_sim.cli", "profiles", 1), ("kprobe_vm.cli", "--version", 125)],
)
def test_a_full_disk(module: str, word: str, status: int) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    done = run(module, word, full)
    os.close(full)
    assert (done.returncode, done.stderr.count(b"\n")) == (status, 1)
    assert b"No space left on device" in done.stderr


@pytest.mark.parametrize(
    ("module", "word"),
    [("kprobe_sim.cli", "--version"), ("kprobe_sim.cli", "profiles"), ("kprobe_vm.cli", "--version")],
)
def test_a_reader_that_has_gone(module: str, word: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = run(module, word, writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")
