"""Reads that fail, counted as misses of the probe: what kernels up to 5.13 show in kprobe_profile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

# What is fetched, where nothing is at 0x20000000, which is in %si too, and at the kernel address; misses of one hit.
READS: Mapping[str, Mapping[str, int]] = {
    "a=@0x20000000:u64": {"5.10": 2, "4.19": 2},
    "a=@0x20000000:u8 b=@0x20000000:x32": {"5.10": 4, "4.19": 4},
    "a=@0xffffec0000000000:u64": {"5.10": 1, "4.19": 2},
    "a=@0x1234567812345678:u64": {"5.10": 0, "4.19": 0},
    "a=+0(+0(%si)):u64": {"5.10": 2, "4.19": 2},
    "a=@0x20000000:u64[3]": {"5.10": 6},
    "a=@0xffffec0000000000:u64[3]": {"5.10": 3},
    "a=@0x20000000:string": {"5.10": 1, "4.19": 2},
    "a=@0xffffec0000000000:string b=$comm": {"5.10": 2, "4.19": 2},
    "a=@0x20000000:string b=$comm": {"5.10": 3, "4.19": 2},
    "b=$comm a=@0x20000000:string": {"5.10": 1, "4.19": 2},
    "a=+0(+0(%si)):string": {"5.10": 4, "4.19": 4},
    "a=@0x20000000:string[3]": {"5.10": 4},
    "a=@0x20000000:ustring b=$comm": {"5.10": 3},
    "a=@0xffffec0000000000:ustring": {"5.10": 0},
}


def expected(release: str, misses: Mapping[str, int]) -> int:
    return next((count for series, count in misses.items() if release.startswith(f"{series}.")), 0)


def missed(tracefs: Any) -> list[bytes]:
    return [row.split()[-1] for row in tracefs.read("kprobe_profile").splitlines()]


@pytest.mark.parametrize("arguments", READS)
def test_a_read_that_fails(tracefs: Any, workload: Any, release: str, arguments: str) -> None:
    tracefs.write("kprobe_events", f"p:m ksys_fadvise64_64 {arguments}\n".encode())
    tracefs.write("events/kprobes/m/filter", f"common_pid == {workload.pid}".encode())
    tracefs.write("events/kprobes/m/enable", b"1")
    workload.fadvise(-2, 0x20000000, 0x10000000)
    assert missed(tracefs) == [b"%d" % expected(release, READS[arguments])]


def test_of_all_probes_at_the_place_and_once_for_each_instance(tracefs: Any, workload: Any, release: str) -> None:
    tracefs.write("kprobe_events", b"p:m ksys_fadvise64_64 a=@0x20000000:u64\np:n ksys_fadvise64_64\n")
    tracefs.mkdir("instances/other")
    for prefix in ("", "instances/other/"):
        tracefs.write(f"{prefix}events/kprobes/enable", b"1")
    workload.fadvise(-2, 0x20000000, 0x10000000)
    count = expected(release, {"5.10": 4, "4.19": 4})
    assert missed(tracefs) == [b"%d" % count, b"%d" % count]


def test_at_a_return(tracefs: Any, workload: Any, release: str) -> None:
    tracefs.write("kprobe_events", b"r:m ksys_fadvise64_64 a=@0x20000000:u64\np:n ksys_fadvise64_64\n")
    tracefs.write("events/kprobes/enable", b"1")
    workload.fadvise(-2, 0x20000000, 0x10000000)
    assert missed(tracefs) == [b"%d" % expected(release, {"5.10": 2, "4.19": 2}), b"0"]
