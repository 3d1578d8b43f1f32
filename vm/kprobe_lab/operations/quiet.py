"""A guest prepared for comparison: it hashes pointers, doesn't optimize probes into jumps, and waits briefly."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import NamedTuple

from kprobe_lab.operations.side import Side
from kprobe_lab.operations.symbols import Symbols
from kprobe_vm.guest.backend import VmTracefs, open_vm
from kprobe_vm.guest.workload import GuestWorkload

_READAHEAD = ("ksys_readahead", "SyS_readahead", "sys_readahead")  # its names since 4.18 and before


class Quiet(NamedTuple):
    """A guest, as one side of a comparison, and what it has."""

    side: Side
    symbols: Symbols


def quiet_guest(kernel: str, *, progress: Callable[[str], None] = lambda line: None) -> Quiet:
    """Start a guest for comparing; closing the side ends it."""
    guest: VmTracefs = open_vm(kernel, progress=progress)
    files = guest.machine.files
    symbols = Symbols.read(files.read("proc/kallsyms"))
    known = dict(symbols.text)
    _seed_hashes(guest, next(known[name] for name in _READAHEAD if name in known))
    # deleting a probe waits for all CPUs, which is most of the time that a campaign takes
    files.write("sys/kernel/rcu_expedited", b"1")
    # a probe optimized into a jump records other flags, and when that happens is chance
    files.write("proc/sys/debug/kprobes-optimization", b"0")
    return Quiet(Side(guest, GuestWorkload(guest.machine)), symbols)


def _seed_hashes(guest: VmTracefs, address: int) -> None:
    """Make the kernel gather random bytes: until then its %p prints (____ptrval____).

    Nothing else in a guest asks for them; a read of /dev/random starts it (wait_for_random_bytes).  Kernels before 5.6
    take too long: their addresses stay unhashed.
    """
    with guest.machine.files.open("dev/random", os.O_RDONLY) as file:
        try:
            file.read(1, 60.0 if guest.exists("options/pause-on-trace") else 1.0)
        except TimeoutError:
            return
    for _ in range(600):
        guest.write("kprobe_events", b"p:zz_id/zz_id 0x%x" % address)
        ready = b"ptrval" not in guest.read("kprobe_events")
        guest.write("kprobe_events", b"-:zz_id/zz_id")
        if ready:
            return
        time.sleep(0.05)  # a kernel worker does it, and nothing shows when
    raise TimeoutError("the guest prints no hashed pointers")
