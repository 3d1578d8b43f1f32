"""Developers run `make bench-lines` after a change to how `kprobe` prints: CPU time per line, beside `cat trace_pipe`.

    tools/bench/bench_lines.py [LINES] [ROUNDS]

Both programs read LINES lines (default 200,000) from trace_pipe of the same mounted simulated kernel and write them
into a pipe.  The lines for `kprobe` are made when its event is enabled.  The table separates what `kprobe` takes
without any lines.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from bench_lines_guest import BUFFER, DEFINITION, compared

from kprobe_sim import SimulatedKernel, Task
from kprobe_sim.expose.run.run import run
from kprobe_sim.probes.hits.call import Call

LINES, ROUNDS = 200_000, 3
TRACING = "/sys/kernel/tracing"
WAYS = {
    "cat": ["cat", f"{TRACING}/trace_pipe"],
    "kprobe": [sys.executable, "-m", "kprobe", "-F", "--tracefs", f"local:{TRACING}", DEFINITION],
}


def prepared(way: str, lines: int) -> SimulatedKernel:
    """Return a kernel on which so many calls are made: at once, or when `kprobe` has an instance that wants them."""
    kernel = SimulatedKernel("6.12", cpus=1)
    tracefs = kernel.tracefs

    def call() -> None:
        kernel.calls(
            Call("do_sys_openat2", Task(42, "cat"), (-100, f"/etc/file{number}"), 3) for number in range(lines)
        )

    def wait() -> None:
        while not (names := tracefs.listdir("instances")):
            time.sleep(0.01)
        tracefs.write(f"instances/{names[0]}/buffer_size_kb", BUFFER.encode())
        while tracefs.read(f"instances/{names[0]}/events/enable")[:1] == b"0":
            time.sleep(0.01)
        call()

    if way == "kprobe" and lines:
        threading.Thread(target=wait, daemon=True).start()
    elif lines:
        tracefs.write("buffer_size_kb", BUFFER.encode())
        tracefs.write("kprobe_events", DEFINITION.encode())
        tracefs.write("events/kprobes/myopen/enable", b"1")
        call()
    return kernel


def child(way: str, lines: int, answer: str) -> int:
    """Read the lines that a command prints, interrupt it, and write down what CPU time it took."""
    process = subprocess.Popen(WAYS[way], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    assert process.stdout is not None
    assert process.stderr is not None
    seen = 0
    if way == "kprobe":
        os.read(process.stderr.fileno(), 1)  # it traces
    while seen < lines:
        seen += process.stdout.read(1 << 20).count(b"\n")
    process.send_signal(signal.SIGINT)
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    Path(answer).write_text(json.dumps(used.ru_utime + used.ru_stime), "ascii")
    return 0


def cpu(way: str, lines: int) -> float:
    """Return the seconds of CPU time that a way takes."""
    with tempfile.NamedTemporaryFile() as answer:
        pid = os.fork()
        if not pid:
            os._exit(run(prepared(way, lines), [sys.executable, __file__, "--child", way, str(lines), answer.name]))
        os.waitpid(pid, 0)
        found: float = json.loads(Path(answer.name).read_text("ascii"))
        return found


def main() -> int:
    """Measure, and print a table."""
    if sys.argv[1:2] == ["--child"]:
        return child(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    lines, rounds = (int(word) for word in (sys.argv[1:] + [str(LINES), str(ROUNDS)][len(sys.argv) - 1 :])[:2])
    return 0 if compared(cpu, lines, rounds) else 1


if __name__ == "__main__":
    sys.exit(main())
