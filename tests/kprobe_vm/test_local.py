"""`LocalTracefs` on a real kernel: Python in the guest runs the contract suite on the guest's own tracefs."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SUITE = "tests/conformance/test_contract.py"
# an emulated guest takes a third of the time to rewrite assertions, of which a failure shows the line as well
RUN = (
    "cd /repo && PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=/repo:/repo/vm python3 -m pytest -c /dev/null --rootdir=/repo "
    f"--import-mode=importlib --assert=plain -p no:cacheprovider -q --tracefs local {SUITE}"
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The sources that the suite needs, with the entry points where Python finds them."""
    place = tmp_path / "repo"
    skip = shutil.ignore_patterns("__pycache__", "5.*", "7.*", "6.12*", "kprobe*")
    for name in ("kprobe", "kprobe_text", "kprobe_corpus", "kprobe_check", "kprobe_sim", "vm"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__", "5.*", "7.*", "6.12*"))
    shutil.copytree(ROOT / "tests", place / "tests", ignore=skip)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    facts = place / "kprobe_sim-0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0\n", "utf-8")
    groups = (
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items())
        for group, entries in project["entry-points"].items()
    )
    (facts / "entry_points.txt").write_text("".join(groups), "utf-8")
    return place


@pytest.mark.vm
def test_the_contract_holds_for_the_machines_own_tracefs(checkout: Path, series: str) -> None:
    command = [sys.executable, "-m", "kprobe_vm", "-q", "run", series, "--memory", "768", "--package", "python3-pytest"]
    done = subprocess.run(
        [*command, "--copy", f"{checkout}:/repo", "--", "sh", "-c", RUN], capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert "failed" not in done.stdout
    assert "skipped" not in done.stdout
