"""bench_parse.py imports it: a million events of the simulator as trace text, as raw pages and as a trace.dat.

    python tools/bench/bench_parse_data.py DIRECTORY [EVENTS]

The mix is that of a machine whose opens are traced: of 100 events 57 are an open with its path, 24 its return and 10
numbers.  The rest are arrays, symbols with a stack, and strings that can't be read.  One event in eight has preemption
off; one line in ten thousand reports lost events.
"""

from __future__ import annotations

import random
import re
import struct
import sys
from pathlib import Path
from typing import Any

from kprobe_sim import SimulatedKernel, Task
from kprobe_sim.scenarios.trace_dat import assembled

KERNEL = "6.12"
CPUS = 2
LINES = 1_000_000
PAGE = 4096
BATCH = 4000
LOST_EVERY = 10_000
DEFINITIONS = (
    "p:myopen do_sys_openat2 filename=+0(%si):string",
    "r:myret do_sys_openat2 ret=$retval:s32",
    "p:mynum vfs_read fd=%di:s32 len=%dx:u64 flags=%cx:x64",
    "p:myarr vfs_write sizes=+0(%si):u32[4]",
    "p:mysym do_exit handler=%di:symbol",
    "p:myfault do_unlinkat name=+0(%si):string",
)
EVENTS = tuple(definition.partition(":")[2].split()[0] for definition in DEFINITIONS)
NAMES = ("cat", "bash", "systemd-journal", "kworker/0:1", "python3", "sshd", "make", "cc1")
HIT = re.compile(rb": my\w+: \(")
STACK = ("__x64_sys_exit_group+0x14", "do_syscall_64+0x59", "entry_SYSCALL_64_after_hwframe+0x76")


def machine() -> SimulatedKernel:
    """Return a kernel with all probes on."""
    kernel = SimulatedKernel(KERNEL, cpus=CPUS)
    tracefs = kernel.tracefs
    tracefs.write("kprobe_events", "\n".join(DEFINITIONS).encode() + b"\n")
    tracefs.write("events/kprobes/mysym/trigger", b"stacktrace")
    tracefs.write("buffer_size_kb", b"8192")
    tracefs.write("events/kprobes/enable", b"1")
    return kernel


def happen(kernel: SimulatedKernel, chance: random.Random, at: int, tasks: list[Task]) -> None:
    """Let one thing happen, at a time in nanoseconds."""
    which = chance.random()
    common: dict[str, Any] = {"task": chance.choice(tasks), "cpu": chance.randrange(CPUS), "at": at}
    if chance.random() < 0.125:
        common["context"] = (0, 1)
    if which < 0.76:
        path = f"/usr/lib/x86_64-linux-gnu/{chance.choice(NAMES)}/lib{int(chance.paretovariate(0.5)) % 4000}.so"
        done = (
            {"returns": chance.choice((-2, 3, 4, 5)), "caller": "__x64_sys_openat+0x6a"}
            if which < 0.31
            else {"returns": None}
        )
        kernel.call("do_sys_openat2", args=(-100, path), **done, **common)
    elif which < 0.89:
        kernel.call(
            "vfs_read", args=(chance.randrange(40), 0, chance.randrange(1 << 17), chance.getrandbits(40)), **common
        )
    elif which < 0.95:
        sizes = struct.pack("<4I", *(chance.randrange(1 << 16) for _ in range(4)))
        kernel.call("vfs_write", args=(1, 0x7F0000001000), memory={0x7F0000001000: sizes}, **common)
    elif which < 0.975:
        handler = kernel.symbols.lookup("do_sys_openat2")[0].address
        kernel.call("do_exit", args=(handler,), stack=STACK, **common)
    else:
        kernel.call("do_unlinkat", args=(-100, 0xDEAD000), **common)


def write(directory: Path, lines: int = LINES) -> None:
    """Write what is to be parsed; the simulator's kernel gives each event as text and on a raw page."""
    kernel = machine()
    tracefs = kernel.tracefs
    chance = random.Random(1)
    tasks = [Task(300 + 37 * number, name) for number, name in enumerate(NAMES)]
    at, written, events, header = 10_000_000_000, 0, 0, b""
    pages: list[list[bytes]] = [[] for _ in range(CPUS)]
    streams = [tracefs.stream(f"per_cpu/cpu{cpu}/trace_pipe_raw") for cpu in range(CPUS)]
    with open(directory / "trace.txt", "wb") as file:
        while written < lines:
            for _ in range(BATCH):
                at += chance.randrange(2000, 40_000)
                happen(kernel, chance, at, tasks)
            trace = tracefs.read("trace")
            start = trace.rindex(b"\n#") + 1
            start = trace.index(b"\n", start) + 1
            if not header:
                header = trace[:start]
                file.write(header)
            file.write(trace[start:])
            written += trace.count(b"\n", start)
            events += len(HIT.findall(trace))
            if written // LOST_EVERY != (written - trace.count(b"\n", start)) // LOST_EVERY:
                file.write(b"CPU:1 [LOST 17 EVENTS]\n")
            for cpu, stream in enumerate(streams):
                pages[cpu] += drained(stream)
    kernel_side(directory, kernel, pages)
    (directory / "events").write_text(f"{events}\n")


def drained(stream: Any) -> list[bytes]:
    """Return the pages that a CPU has."""
    data = b""
    while True:
        try:
            piece = stream.read(0)
        except TimeoutError:
            break
        data += piece
    assert len(data) % PAGE == 0
    return [data[at : at + PAGE] for at in range(0, len(data), PAGE)]


def kernel_side(directory: Path, kernel: SimulatedKernel, pages: list[list[bytes]]) -> None:
    """Write the pages, what describes them, and both as a trace.dat."""
    tracefs = kernel.tracefs
    header = tracefs.read("events/header_page")
    formats = {event: tracefs.read(f"events/kprobes/{event}/format") for event in EVENTS}
    own = {event: tracefs.read(f"events/ftrace/{event}/format") for event in ("kernel_stack", "user_stack", "print")}
    for cpu, found in enumerate(pages):
        (directory / f"cpu{cpu}.pages").write_bytes(b"".join(found))
    (directory / "header_page").write_bytes(header)
    (directory / "saved_cmdlines").write_bytes(tracefs.read("saved_cmdlines"))
    for group, texts in (("kprobes", formats), ("ftrace", own)):
        for event, text in texts.items():
            home = directory / "formats" / group / event
            home.mkdir(parents=True, exist_ok=True)
            (home / "format").write_bytes(text)
    data = [b"".join(found) for found in pages]
    names = ("do_sys_openat2", "vfs_read", "vfs_write", "do_exit", "do_unlinkat", "__x64_sys_openat")
    places = sorted((kernel.symbols.lookup(name)[0].address, name) for name in names)
    symbols = "".join(f"{address:016x} T {name}\n" for address, name in places).encode()
    (directory / "trace.dat").write_bytes(assembled(kernel, [f"kprobes/{event}" for event in EVENTS], symbols, data))


if __name__ == "__main__":
    home = Path(sys.argv[1])
    home.mkdir(parents=True, exist_ok=True)
    write(home, int(sys.argv[2]) if len(sys.argv) > 2 else LINES)
