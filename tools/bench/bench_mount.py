"""`make bench` imports it: the mount against plain pyfakefs: a file opened, written and closed, and a trace read."""

from __future__ import annotations

from pathlib import Path

import bench_expose
from bench_figure import Figure, Group, Round
from bench_start import can_mount

OS, OPEN = "pyfakefs: os.open", "pyfakefs: open()"
BULK = "pyfakefs: os.read"
# what bench_expose calls the ways
WAYS = {
    "c": bench_expose.BY_C,
    "os": "mount, os",
    "open": "mount, open()",
    "server": bench_expose.SERVED,
    "beside": bench_expose.BESIDE,
}
BULKS = {"c": bench_expose.BY_C, "os": "mount, os"}


def mount(_: Path) -> Round:
    """What bench_expose measures of each way, one round of it; nothing of the mount where there can't be one."""
    kernel = bench_expose.recorded()
    text = kernel.tracefs.read("trace").decode()
    mounts = can_mount()

    def measure() -> dict[str, float]:
        ways = bench_expose.in_pyfakefs(text)
        plain, opened = ways["pyfakefs alone, os"], ways["pyfakefs alone, open()"]
        found = {OS: plain["write"], OPEN: opened["write"], BULK: len(text) / plain["bulk"] / 1e6}
        if mounts:
            with bench_expose.mounted(kernel) as measured:
                ways = measured()
            found |= {f"mount.{way}.write": ways[name]["write"] for way, name in WAYS.items() if name in ways}
            found |= {
                f"mount.{way}.bulk": len(text) / ways[name]["bulk"] / 1e6 for way, name in BULKS.items() if name in ways
            }
        return found

    return measure


GROUPS = (
    Group(
        "mount",
        mount,
        (
            Figure("mount.c.write", "mount: open, write, close from C", OS, most_ratio=1 / 4),
            Figure("mount.os.write", "the same, Python's os", OS),
            Figure("mount.open.write", "the same, Python's open()", OPEN, most_ratio=1 / 2),
            Figure("mount.server.write", "CPU time of our server for it", OS),
            Figure("mount.beside.write", "the same, on its caller's CPU", OS, most=25e-6),
            Figure("mount.c.bulk", "mount: read trace from C", BULK, "MB/s", most=200),
            Figure("mount.os.bulk", "the same, Python's os", BULK, "MB/s"),
        ),
    ),
)
