"""docs/reference/limits.md is held to the simulator: its kernels, and the files that it says aren't simulated."""

from __future__ import annotations

import errno
import re
from hashlib import sha256
from pathlib import Path

import pytest

from kprobe_sim import SimulatedKernel
from kprobe_sim.builds.portable.envelope import HEAD_SIZE, read_head
from kprobe_sim.builds.profile import available, load, ordered
from kprobe_sim.tree.control_files import CONTROL, KNOBS, PER_CPU, PLAIN, PROBE_FILES, TOP

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "limits.md").read_text(encoding="utf-8")
DISTRIBUTION = ROOT / "distributions" / "kprobe-sim-profiles" / "src" / "kprobe_sim_profiles"
BEHAVE = {*CONTROL, *KNOBS, *TOP, *PROBE_FILES, *PLAIN, "available_tracers"}  # the last ones never change


def named(row: str) -> set[str]:
    """Return the files that a row's first cell names."""
    cell = next(line for line in PAGE.splitlines() if line.startswith(f"| {row}")).split(" | ")[0]
    return set(re.findall(r"`(\w+)`", cell))


def files(kernel: SimulatedKernel) -> list[str]:
    """Return the files of the top directory."""
    tracefs = kernel.tracefs
    found = []
    for name in tracefs.listdir(""):
        try:
            tracefs.listdir(name)
        except NotADirectoryError:
            found.append(name)
    return found


def refuses(kernel: SimulatedKernel, name: str) -> bool:
    """Return whether a write is refused as something that isn't simulated."""
    try:
        kernel.tracefs.write(name, b"1\n")
    except OSError as error:
        return error.errno == errno.ENOSYS
    return False


def test_the_kernels_are_those_of_the_profiles() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| ([\d.]+)(?: \(rc\d+\))? \|$", PAGE, re.MULTILINE)
    assert rows[: len(available())] == [(release, load(release).version) for release in available()]
    heads = [read_head(path.read_bytes()[:HEAD_SIZE]) for path in sorted(DISTRIBUTION.glob("*.kprofile"))]
    brought = {head.release: head.version for head in heads}
    assert rows[len(available()) :] == [(release, brought[release]) for release in ordered(tuple(brought))]


def test_the_files_of_the_distribution_are_those_of_its_checksums() -> None:
    rows = [f"{sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in DISTRIBUTION.glob("*.kprofile")]
    assert (DISTRIBUTION / "SHA256SUMS").read_text().splitlines() == sorted(rows, key=lambda row: row[66:])
    assert max(path.stat().st_size for path in DISTRIBUTION.glob("*.kprofile")) <= 3_000_000


def test_the_files_that_refuse_writes_are_named() -> None:
    kernels = [SimulatedKernel(release) for release in available()]
    refused = {name for kernel in kernels for name in files(kernel) if refuses(kernel, name)}
    assert refused == named("sizes of sub-buffers")


def test_the_files_that_are_as_recorded_are_named() -> None:
    recorded = {name for release in available() for name in files(SimulatedKernel(release))} - BEHAVE
    assert recorded == named("files as recorded") | named("sizes of sub-buffers")


def test_the_numbers_without_effect_are_named() -> None:
    assert set(KNOBS) - {"buffer_percent"} == named("`max_graph_depth`")


@pytest.mark.parametrize("release", available())
def test_every_file_of_a_cpu_behaves(release: str) -> None:
    assert set(SimulatedKernel(release).tracefs.listdir("per_cpu/cpu0")) - set(PER_CPU) == set()


@pytest.mark.parametrize("release", [available()[0], available()[-1]])
def test_the_events_that_refuse_are_counted(release: str) -> None:
    kernel = SimulatedKernel(release)
    names = kernel.tracefs.read("available_events").decode().split()
    refused: list[str] = []
    for name in names:
        try:
            kernel.emit(name)
        except ValueError as error:
            refused.append(str(error))
    assert [text for text in refused if "can't be shown" not in text] == []
    assert f"{len(refused)} of {len(names):,} on {load(release).series}" in PAGE
