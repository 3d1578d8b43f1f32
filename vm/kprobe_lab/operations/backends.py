"""The backends of a comparison: a spec comes in, an open simulator or guest goes out.

Both packages are imported when a backend is opened, as that takes time that other verbs of `kprobe-vm` don't need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kprobe_vm.agent.tracefs import GuestTracefs

if TYPE_CHECKING:
    from kprobe_sim.kernel.backend import SimBackend
    from kprobe_vm.guest.backend import VmTracefs


def open_simulator(kernel: str) -> SimBackend:
    """Open the simulator of a series, a release or a profile's path; raise `ValueError` if there is none."""
    from kprobe_sim.kernel.backend import open_sim

    return open_sim(kernel)


def open_backend(spec: str) -> SimBackend | VmTracefs:
    """Open a simulator ("sim:6.1") or a guest ("vm:6.1").

    Raise `LookupError` for a spec of another kind, `ValueError` for a kernel that isn't there, and what starting a
    guest raises.
    """
    kind, _, argument = spec.partition(":")
    if kind == "sim":
        return open_simulator(argument)
    if kind == "vm":
        from kprobe_vm.guest.backend import open_vm

        return open_vm(argument)
    raise LookupError(f"{spec}: only sim:KERNEL and vm:KERNEL can be opened")


def identity(tracefs: SimBackend | VmTracefs) -> tuple[str, str]:
    """Return a kernel's release and version, as uname -r and uname -v; a simulator says no version."""
    if isinstance(tracefs, GuestTracefs):
        return tracefs.machine.release, tracefs.machine.version
    return tracefs.kernel.release, ""
