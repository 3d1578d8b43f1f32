"""Developers run `make bench-lines KERNEL=6.12`: the same measurement as bench_lines.py, on a real kernel in a guest.

    tools/bench/bench_lines_guest.py [KERNEL] [LINES] [ROUNDS]

A process in the guest opens a missing file LINES times (default 200,000) while nobody reads.  Then `cat` of coreutils,
or `kprobe`, reads the lines from trace_pipe and writes them into a pipe.  The CPU time is that of the kernel and of the
program; what `kprobe` takes without any lines is shown separately.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path
from statistics import median

TRACING = Path("/sys/kernel/tracing")
DEFINITION = "p:myopen do_sys_openat2 dfd=%di:s32 filename=+0(%si):string"
BUFFER = "65536"  # KiB
KPROBE = [sys.executable, "-m", "kprobe", "-F", "--tracefs", f"local:{TRACING}", "--buffer-size", BUFFER, DEFINITION]
WAYS = {"cat": ["cat", f"{TRACING}/trace_pipe"], "kprobe": KPROBE}
OPENS = """
import os
for _ in range({}):
    try:
        os.open("/etc/nosuch", 0)
    except OSError:
        pass
"""


def write(name: str, text: str, flag: int = os.O_TRUNC) -> None:
    """Write a file of the tracefs; what ends with a newline is appended."""
    descriptor = os.open(TRACING / name, os.O_WRONLY | flag)
    os.write(descriptor, text.encode())
    os.close(descriptor)


def opens(lines: int) -> None:
    """Have so many events emitted."""
    subprocess.run([sys.executable, "-S", "-c", OPENS.format(lines)], check=True)


def cpu(way: str, lines: int) -> float:
    """Return the seconds of CPU time that a way takes."""
    if way == "cat":
        write("buffer_size_kb", BUFFER)
        write("kprobe_events", DEFINITION, os.O_APPEND)
        write("events/kprobes/myopen/enable", "1")
        opens(lines)
        write("events/kprobes/myopen/enable", "0")
    process = subprocess.Popen(WAYS[way], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    assert process.stdout is not None
    assert process.stderr is not None
    if way == "kprobe":
        os.read(process.stderr.fileno(), 1)  # it traces
        process.send_signal(signal.SIGSTOP)
        opens(lines)
        process.send_signal(signal.SIGCONT)
    seen = 0
    while seen < lines:
        seen += os.read(process.stdout.fileno(), 1 << 20).count(b"\n")
    process.send_signal(signal.SIGTERM)
    process.stdout.read()
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    if way == "cat":
        write("kprobe_events", "-:myopen", os.O_APPEND)
        write("trace", "")
    return used.ru_utime + used.ru_stime


def compared(taken: Callable[[str, int], float], lines: int, rounds: int) -> bool:
    """Print the seconds that each way takes for so many lines, and `kprobe` for none; return whether the aim is met."""
    asked = [("kprobe", 0), ("cat", lines), ("kprobe", lines)]
    rows = [[taken(*one) for one in asked] for _ in range(rounds)]  # by turns: other work slows all of them
    idle, cat, kprobe = (median(column) for column in zip(*rows, strict=True))
    print(f"{lines} lines, medians of {rounds} rounds")
    for way, seconds in (("cat", cat), ("kprobe", kprobe)):
        print(f"{way:<8} {seconds / lines * 1e6:6.3f} us a line, {seconds / cat:.2f} x cat")
    rest = kprobe - idle
    print(f"kprobe without beginning and end ({idle * 1000:.0f} ms): {rest / cat:.2f} x cat (aim: 2)")
    return rest <= 2 * cat


def main() -> int:
    """Do it in a guest."""
    if sys.argv[1:2] == ["--inside"]:
        print(os.uname().release)
        return 0 if compared(cpu, int(sys.argv[2]), int(sys.argv[3])) else 1
    kernel, lines, rounds = (*sys.argv[1:4], *("6.12", "200000", "3")[len(sys.argv) - 1 :])
    with tempfile.TemporaryDirectory() as name:
        top = Path(__file__).parents[2]
        copied = Path(name, "kprobe")
        for package in ("kprobe", "kprobe_text"):
            shutil.copytree(top / package, copied / package, ignore=shutil.ignore_patterns("__pycache__"))
        about = Path(str(distribution("kprobe-sim").locate_file("")))
        for found in about.glob("kprobe_sim-*.dist-info"):  # its entry points: the kinds of tracefs
            shutil.copytree(found, copied / found.name)
        shutil.copy(__file__, copied)
        command = f"cd /bench && PYTHONPATH=/bench python3 {Path(__file__).name} --inside {lines} {rounds}"
        guest = ["run", kernel, "--memory", "1024", "-p", "python3", "-p", "coreutils", "--copy", f"{copied}:/bench"]
        return subprocess.run(
            [sys.executable, "-m", "kprobe_vm", "-q", *guest, "--", "sh", "-c", command], check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
