"""What limits.c prints on a kernel, and what of that a mount can't answer.

The mount is tested in tests/kprobe_sim/expose/test_limits.py, a guest in tests/kprobe_vm/test_limits.py;
docs/evidence/ways.md shows what differs.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

# name: what a kernel answers
LIMITS = {
    "writev: 2 parts to trace_marker, marks": "2",
    "pwrite: kprobe_events": "ESPIPE",
    "open: O_DIRECT": "EINVAL",
    "seek: SEEK_DATA of tracing_on": "ENXIO",
    "seek: SEEK_HOLE of tracing_on": "ENXIO",
    "seek: SEEK_DATA of kprobe_events": "EINVAL",
    "seek: SEEK_DATA of trace": "EINVAL",
    "epoll: of a file that never waits": "EPERM",
    "epoll: of trace_marker": "EPERM",
    "epoll: of trace_pipe": "0",
    "rewinddir: instances/, a new one": "1",
    "rewinddir: instances/, a removed one": "0",
    "rewinddir: events/, a new group": "1",
    "rewinddir: events/, a removed group": "0",
    "epoll: edge-triggered, 5 events read one by one": "5",
    "epoll: edge-triggered, 3 events that nobody reads": "3",
}

# {name: (what comes on a mount, why)}
ON_MOUNT = {
    "writev: 2 parts to trace_marker, marks": ("1", "the kernel's FUSE makes one request of them"),
    "pwrite: kprobe_events": ("10", "FUSE can't tell it from a write"),
    "epoll: of a file that never waits": ("0", "the kernel's FUSE has poll for every file"),
    "epoll: of trace_marker": ("0", "the same"),
}


def build(directory: Path) -> Path:
    """Compile limits.c, static; return the program."""
    program = directory / "limits"
    source = Path(__file__).with_suffix(".c")
    subprocess.run(["cc", "-static", "-Wall", "-Werror", "-O1", "-o", program, source], check=True)
    return program


def answers(text: str) -> dict[str, str]:
    """Read what the program printed."""
    return {name: answer for name, _, answer in (line.rpartition(": ") for line in text.splitlines())}
