"""Checks whether a worker's machine has what guests need, without fetching anything."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from kprobe_vm.host import programs
from kprobe_vm.host.cache import Cache
from kprobe_vm.images.kernels import Kernels, lock_name

NEEDED = (programs.QEMU, "cc", "setpriv")  # when the kernel is there


def lacking_for_guests(kernels: Sequence[str]) -> str:
    """Return what this machine lacks to start guests with kernels, and how to get it; "" if nothing.

    Kernels are releases, series or paths.
    """
    if not kernels:
        return ""
    if absent := [kernel for kernel in kernels if "/" in kernel and not os.access(kernel, os.R_OK)]:
        return f"it can't read {absent[0]}"
    if absent := programs.missing_python():
        return f"it has no {' and no '.join(absent)}: pip install 'kprobe-sim[vm]' there"
    if needed := [name for name in NEEDED if not shutil.which(name)]:
        return f"it has no {' and no '.join(needed)}: run `kprobe-vm check` there"
    releases = [kernel.release for kernel in Kernels(Cache.of(os.environ), lambda line: None).cached()]
    cached = {name for release in releases for name in (release, lock_name(release))}
    if absent := [kernel for kernel in kernels if "/" not in kernel and kernel not in cached]:
        return f"it hasn't the kernel {absent[0]}: run `kprobe-vm boot {absent[0]}` there"
    return ""
