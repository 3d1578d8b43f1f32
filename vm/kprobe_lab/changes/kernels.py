"""The kernels that can be asked, in order: the simulated ones, and guests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from kprobe_lab.operations.reference import simulated
from kprobe_lab.operations.side import Side
from kprobe_vm.host.progress import Progress
from kprobe_vm.recording.profilefile import version_of

if TYPE_CHECKING:
    from kprobe_sim.kernel.kernels import RecordedKernel


class OrderedKernel(NamedTuple):
    """A kernel in the order of kernels: its spec, and the release that it is a flavour of, "" for a main build."""

    spec: str
    beside: str = ""


class NamedSide(NamedTuple):
    """An open kernel: its side, its release, and its version; `profile` names the simulator of the build."""

    side: Side
    release: str
    profile: str
    version: str
    is_simulated: bool


def simulated_builds() -> Sequence[RecordedKernel]:
    """Return the builds that can be simulated, oldest first."""
    from kprobe_sim.kernel.kernels import kernels

    return kernels()


def in_line(kernels: Sequence[str] = ()) -> list[OrderedKernel]:
    """Return kernels (series, releases, paths of profiles) in the order given, or else all that can be simulated.

    Versions come oldest first.  One build of each is the main one, the last as kernels are listed: the cloud kernel,
    where there is one.  Its other flavours stand beside it.
    """
    if kernels:
        return [OrderedKernel(spec_of(kernel)) for kernel in kernels]
    ordered = []
    for _, flavours in groupby(simulated_builds(), lambda build: build.release.removesuffix(build.flavour)):
        *others, main = flavours
        ordered += [OrderedKernel(main.spec), *(OrderedKernel(build.spec, main.release) for build in others)]
    return ordered


def spec_of(kernel: str) -> str:
    """Return the spec that a series ("6.1"), a release, a profile's path or a spec stands for."""
    kind, colon, _ = kernel.partition(":")
    return kernel if colon and "/" not in kind else f"sim:{kernel}"


@contextmanager
def opened(spec: str, progress: Progress) -> Iterator[NamedSide]:
    """Open a simulator ("sim:6.1") or a guest ("vm:6.1") within a context.

    Raise `ValueError` for a spec that is neither or names no kernel, and what starting a guest raises.
    """
    kind, _, argument = spec.partition(":")
    if kind == "sim":
        side = simulated(spec)
        kernel = side.tracefs.kernel
        named = NamedSide(side, kernel.release, argument, kernel.profile.version, True)
    elif kind == "vm":
        from kprobe_lab.operations.quiet import quiet_guest  # needs the extra [vm], which simulators don't

        side = quiet_guest(argument, progress=progress).side
        machine = side.tracefs.machine
        banner = machine.files.read("proc/version").decode()
        named = NamedSide(side, machine.release, machine.release, version_of(banner), False)
    else:
        raise ValueError(f"{spec}: only sim:KERNEL and vm:KERNEL can be asked")
    try:
        yield named
    finally:
        side.close()
