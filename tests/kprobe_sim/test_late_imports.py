"""What a kernel imports only when it needs it: nothing of that with a first probe, and never within pyfakefs."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import kprobe_sim
from kprobe_sim.expose.python.fakefs import LATE

HOME = Path(kprobe_sim.__file__).parent
ROOT = Path(__file__).parents[2]
FIRST_PROBE = """
import sys
from kprobe_sim import SimulatedKernel
tracefs = SimulatedKernel("6.1").tracefs
tracefs.write("kprobe_events", b"p:myopen do_sys_openat2 +0(%si):string")
tracefs.write("events/kprobes/myopen/enable", b"1")
print(*sorted(name for name in sys.modules if name.startswith("kprobe_sim.")))
"""
TWO_FAKE_FILE_SYSTEMS = """
from pyfakefs.fake_filesystem_unittest import Patcher
from kprobe_sim import SimulatedKernel
from kprobe_sim.expose import patched
kernel = SimulatedKernel("6.1")
TRIGGER = "/sys/kernel/tracing/events/sched/sched_switch/trigger"
for text in ("hist:keys=next_pid", ""):
    with Patcher() as patcher, patched(kernel, fs=patcher.fs):
        with open(TRIGGER, "w") as file:  # drops what histograms there are
            file.write(text)
        with open(TRIGGER) as file:
            print(file.readline().partition(":vals")[0].rstrip())
"""


def run(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def within_functions(path: Path) -> Iterator[str]:
    """Yield the modules of this package that the functions of a file import."""
    for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for node in ast.walk(function) if isinstance(function, ast.FunctionDef) else ():
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("kprobe_sim."):
                yield str(node.module).removeprefix("kprobe_sim.")


def test_a_probe_needs_none_of_it() -> None:
    found = run(FIRST_PROBE).split()
    assert "kprobe_sim.probes.kprobes" in found
    assert {f"kprobe_sim.{name}" for name in LATE} & set(found) == set()


def test_all_of_it_is_there_before_pyfakefs() -> None:
    order = tomllib.loads((ROOT / "layers.toml").read_text("utf-8"))["layers"]["kprobe_sim"]
    layers = order[order.index("builds") : order.index("kernel") + 1]
    found = {
        name
        for layer in layers
        for path in (HOME / layer.replace(".", "/")).glob("*.py")
        for name in within_functions(path)
    }
    assert sorted(found) == sorted(LATE)


def test_a_kernel_that_is_used_in_two_fake_file_systems() -> None:
    shown = run(TWO_FAKE_FILE_SYSTEMS).splitlines()
    assert shown == ["hist:keys=next_pid", "# Available triggers:"]
