"""A profile that `kprobe-sim record-local` makes in a guest, as if that were the user's machine, and the lab's of it.

The guest decodes its own code, which takes it minutes where it is emulated: `make vm-record-local`.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import re
import shutil
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kprobe_sim.builds.recorded_tracefs import RecordedTracefs
from kprobe_vm import Machine
from kprobe_vm.commands.copies import Copy
from kprobe_vm.recording.booted import record_kernel

ROOT = Path(__file__).resolve().parents[2]
RUN = "PYTHONPATH=/repo python3 -m kprobe_sim.cli record-local --yes -o /tmp/out"

# What differs of the profiles, and why.
DIFFERING_FACTS = {
    "tasks": "the threads that the kernel has started by then",
    "hashed": "an address that a kernel hashes, once it has the random numbers for that",
}
# which show the time, and from 7.2 on how long the boot took
DIFFERING_TEXTS = re.compile(r"(instances/\*/)?per_cpu/cpu\d+/stats|dyn_ftrace_total_info")
# What stays different in the guest's tracefs.
STAYS = re.compile(
    r"(per_cpu/cpu\d+/)?(buffer_size_kb|stats)|buffer_total_size_kb|"  # the buffer has expanded; the time
    r"saved_cmdlines|touched_functions"  # what the kernel remembers of tasks and functions
)


def kernels() -> list[str]:
    return os.environ.get("KERNEL", "6.1").split()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The sources, capstone, and the entry points where Python finds them."""
    found = importlib.util.find_spec("capstone")
    assert found is not None
    assert found.origin is not None
    place = tmp_path / "repo"
    for source in (ROOT / "kprobe_sim", ROOT / "vm" / "kprobe_vm", Path(found.origin).parent):
        shutil.copytree(
            source, place / source.name, ignore=shutil.ignore_patterns("__pycache__", "profiles", "include")
        )
    facts = place / "kprobe_sim-0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: kprobe-sim\nVersion: 0\n", "utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    groups = (
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items())
        for group, entries in project["entry-points"].items()
    )
    (facts / "entry_points.txt").write_text("".join(groups), "utf-8")
    return place


def shown(machine: Machine) -> dict[str, bytes | None]:
    """Return all directories and files of the guest's tracefs, with what can be read of those outside of formats."""
    script = "cd /sys/kernel/tracing && find . -type d; echo; find . -type f -perm -400"
    directories, files = machine.run(["sh", "-c", script], check=True).stdout.decode().split("\n\n")
    names = [name.removeprefix("./") for name in files.split()]
    wanted = [
        name
        for name in names
        if not re.search(r"(^|/)(trace_pipe\w*|snapshot_raw|format|id|hist)$", name) and not STAYS.fullmatch(name)
    ]
    texts: dict[str, bytes | None] = dict.fromkeys([*directories.split(), *names])
    for at in range(0, len(wanted), 500):
        texts |= machine.tracefs.read_each(wanted[at : at + 500])
    return texts


def facts(profile: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((profile / "profile.json").read_bytes())
    return {name: value for name, value in found.items() if name not in DIFFERING_FACTS}


def texts(profile: Path) -> dict[str, object]:
    tracefs = RecordedTracefs(profile / "tracefs.bin")
    files: dict[str, object] = {
        path: tracefs.text(path) for path in tracefs.paths() if not DIFFERING_TEXTS.fullmatch(path)
    }
    events = {
        f"{event.system}/{event.name}": (event, tracefs.event_format(event.system, event.name))
        for event in tracefs.events()
    }
    return files | events


@pytest.mark.vm
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kernel", kernels())
def test_the_machine_one_sits_at_is_recorded_as_the_lab_records_it(kernel: str, checkout: Path, tmp_path: Path) -> None:
    with Machine(kernel, memory=2048, packages=["python3-pytest"]) as machine:
        Copy.parse(f"{checkout}:/repo").into(machine, lambda line: None)
        before = shown(machine)
        done = machine.run(["sh", "-c", RUN], timeout=1100)
        assert done.returncode == 0, done.stderr.decode()
        after = shown(machine)
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        assert changed == set()
        assert len(before) > 5000
        packed = machine.run(["tar", "-C", "/tmp/out", "-c", "."], check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(tmp_path / "local", filter="data")
    (local,) = (tmp_path / "local").iterdir()
    lab = record_kernel(kernel, tmp_path / "lab")
    assert local.name == lab.name
    for name in ("symbols.bin", "prototypes.bin"):
        assert (local / name).read_bytes() == (lab / name).read_bytes(), name
    assert facts(local) == facts(lab)
    assert texts(local) == texts(lab)
