"""What a kernel build shows of itself in a trace: the sizes of functions, return addresses, its banner.

These are facts of one build, not of a version; a new build gets a row here, recorded from it.
"""

from __future__ import annotations

from typing import NamedTuple


class Build(NamedTuple):
    """Facts of one build; `openat2` and so on are places as a trace prints them, without the parentheses."""

    openat2: str
    openat: str
    clone: str
    fork: str
    fadvise: str
    fadvise_entry: str
    stack: tuple[str, str]
    boundary: int  # offset of the second instruction of do_sys_openat2 that a probe may be placed on
    banner: str
    dangling: bool  # whether a filter may end in && or || (the refusal went into some stable kernels)


_DEBIAN_6_1 = Build(
    openat2="do_sys_openat2+0x0/0x170",
    openat="__x64_sys_openat+0x6a/0xa0",
    clone="kernel_clone+0x0/0x430",
    fork="__do_sys_fork+0x3a/0x60",
    fadvise="ksys_fadvise64_64+0x0/0xa0",
    fadvise_entry="__x64_sys_fadvise64+0x18/0x20",
    stack=("do_syscall_64+0x5d/0x90", "entry_SYSCALL_64_after_hwframe+0x6e/0xd8"),
    boundary=5,
    banner="Linux version {} (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0, "
    "GNU ld (GNU Binutils for Debian) 2.40) #1 SMP PREEMPT_DYNAMIC Debian {}\n",
    dangling=True,
)


def _debian_6_1(release: str, package: str, *, dangling: bool) -> tuple[str, Build]:
    return release, _DEBIAN_6_1._replace(banner=_DEBIAN_6_1.banner.format(release, package), dangling=dangling)


BUILDS = dict(
    [
        _debian_6_1("6.1.0-54-cloud-amd64", "6.1.190-1 (2026-10-16)", dangling=True),
        _debian_6_1("6.1.0-56-cloud-amd64", "6.1.192-2 (2026-11-16)", dangling=False),
    ]
)


def build_of(release: str) -> Build:
    """Return the facts of a build; fail if nobody has recorded them."""
    assert release in BUILDS, f"record what {release} shows of itself in {__name__}.BUILDS"
    return BUILDS[release]
