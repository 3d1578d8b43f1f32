"""Raw pages read by somebody else's program: trace-cmd report shows what `trace` shows.

Debian's trace-cmd is used from the path, or fetched; without either the test is left out.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kprobe_sim import SimulatedKernel, Task
from kprobe_sim.scenarios.trace_dat import trace_dat

PACKAGES = ("trace-cmd", "libtracefs1", "libtraceevent1")


@pytest.fixture(scope="session")
def trace_cmd(unpacked: Callable[..., Path]) -> list[str]:
    """Return the command line of trace-cmd."""
    found = shutil.which("trace-cmd")
    if found:
        return [found]
    place = unpacked(*PACKAGES)
    libraries = next(place.glob("usr/lib/*/libtraceevent.so.1")).parent
    return ["env", f"LD_LIBRARY_PATH={libraries}", f"{place}/usr/bin/trace-cmd"]


def test_trace_cmd_reports_what_trace_shows(trace_cmd: list[str], tmp_path: Path) -> None:
    kernel = SimulatedKernel("6.1", cpus=2)
    kernel.tracefs.write("kprobe_events", b"p:ent do_sys_openat2 dfd=%di:s32 s=+0(%si):ustring flags=%dx:x32")
    kernel.tracefs.write("kprobe_events", b"r:ret do_sys_openat2 ret=$retval:s32")
    kernel.tracefs.write("events/kprobes/enable", b"1")
    for number in range(500):
        kernel.call(
            "do_sys_openat2",
            task=Task(100 + number % 7, f"task{number % 7}"),
            args=(-100, f"/tmp/{'x' * (number % 200)}{number}", number),
            returns=number - 2,
            caller="__x64_sys_openat+0x6a",
            cpu=number % 2,
            at=1_000_000_000 + number * 1_000_000 + number // 100 * 300_000_000,  # some pauses need a time extend
            duration=500,
        )
    shown = kernel.tracefs.read("trace").decode()
    path = tmp_path / "trace.dat"
    path.write_bytes(trace_dat(kernel, "", ["kprobes/ent", "kprobes/ret"], "local", kernel.top.buffer.pending()))
    report = subprocess.run([*trace_cmd, "report", path], capture_output=True, text=True, check=True).stdout
    ours = re.findall(r"(task\d)-(\d+) +\[00(\d)\] \S+ +(\d+\.\d{6}): (ent|ret): \(.*?\) (.*)", shown)
    theirs = re.findall(r"(task\d)-(\d+) +\[00(\d)\](?: \S{5})? +(\d+\.\d{6}): (ent|ret): +\(.*?\) (.*)", report)
    assert len(ours) == 1000
    assert [(*event[:5], re.sub(r'"|0x', "", event[5])) for event in ours] == [
        (*event[:5], re.sub(r'"|0x', "", event[5])) for event in theirs
    ]
