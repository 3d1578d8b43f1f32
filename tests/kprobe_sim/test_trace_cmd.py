"""Raw pages read by somebody else's program: trace-cmd report shows what `trace` shows.

A trace.dat (version 6) is put together from the simulated tracefs alone.  Debian's trace-cmd is used from the path, or
fetched once into the user's cache; without either the test is skipped.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from kprobe_sim import SimulatedKernel, Task

PACKAGES = ("trace-cmd", "libtracefs1", "libtraceevent1")
PAGE = 4096


@pytest.fixture(scope="session")
def trace_cmd() -> list[str]:
    """Return the command line of trace-cmd."""
    found = shutil.which("trace-cmd")
    if found:
        return [found]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kprobe-sim" / "trace-cmd"
    program = cache / "usr/bin/trace-cmd"
    if not program.exists():
        if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
            pytest.skip("no trace-cmd, and no apt-get to fetch it")
        cache.mkdir(parents=True, exist_ok=True)
        fetched = subprocess.run(["apt-get", "download", *PACKAGES], cwd=cache, capture_output=True, check=False)
        if fetched.returncode:
            pytest.skip("no trace-cmd, and it can't be fetched")
        for package in sorted(cache.glob("*.deb"), key=lambda path: path.name.startswith("trace-cmd")):
            subprocess.run(["dpkg-deb", "-x", package, cache], check=True)
    libraries = next(cache.glob("usr/lib/*/libtraceevent.so.1")).parent
    return ["env", f"LD_LIBRARY_PATH={libraries}", str(program)]


def sized(form: str, data: bytes) -> bytes:
    return struct.pack(form, len(data)) + data


def trace_dat(kernel: SimulatedKernel, events: list[str]) -> bytes:
    """Assemble a trace.dat with the events of system kprobes."""
    tracefs = kernel.tracefs
    out = b"\x17\x08\x44tracing6\0" + bytes([0, 8]) + struct.pack("<I", PAGE)
    for name in ("header_page", "header_event"):
        out += name.encode() + b"\0" + sized("<Q", tracefs.read(f"events/{name}"))
    ftrace = [tracefs.read(f"events/ftrace/{name}/format") for name in ("print", "kernel_stack")]
    out += struct.pack("<I", len(ftrace)) + b"".join(sized("<Q", text) for text in ftrace)
    formats = [tracefs.read(f"events/kprobes/{name}/format") for name in events]
    out += struct.pack("<I", 1) + b"kprobes\0" + struct.pack("<I", len(formats))
    out += b"".join(sized("<Q", text) for text in formats)
    symbols = [kernel.symbols.lookup(name)[0] for name in ("do_sys_openat2", "__x64_sys_openat")]
    out += sized("<I", "".join(f"{s.address:016x} {s.type} {s.name}\n" for s in symbols).encode())
    out += sized("<I", tracefs.read("printk_formats")) + sized("<Q", tracefs.read("saved_cmdlines"))
    out += struct.pack("<I", kernel.cpus) + b"options  \0" + struct.pack("<H", 0) + b"flyrecord\0"
    data = []
    for cpu in range(kernel.cpus):
        pages = b""
        with tracefs.open(f"per_cpu/cpu{cpu}/trace_pipe_raw", os.O_RDONLY | os.O_NONBLOCK) as raw:
            try:
                while page := raw.read(PAGE):
                    pages += page
            except BlockingIOError:
                data.append(pages)
    start = -(-(len(out) + 16 * kernel.cpus) // PAGE) * PAGE
    for pages in data:
        out += struct.pack("<QQ", start, len(pages))
        start += len(pages)
    return out.ljust(-(-len(out) // PAGE) * PAGE, b"\0") + b"".join(data)


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
    path.write_bytes(trace_dat(kernel, ["ent", "ret"]))
    report = subprocess.run([*trace_cmd, "report", path], capture_output=True, text=True, check=True).stdout
    ours = re.findall(r"(task\d)-(\d+) +\[00(\d)\] \S+ +(\d+\.\d{6}): (ent|ret): \(.*?\) (.*)", shown)
    theirs = re.findall(r"(task\d)-(\d+) +\[00(\d)\] +(\d+\.\d{6}): (ent|ret): +\(.*?\) (.*)", report)
    assert len(ours) == 1000
    assert [(*event[:5], re.sub(r'"|0x', "", event[5])) for event in ours] == [
        (*event[:5], re.sub(r'"|0x', "", event[5])) for event in theirs
    ]
