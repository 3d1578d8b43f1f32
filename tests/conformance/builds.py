"""What a kernel build shows of itself in a trace: the sizes of functions, return addresses, its banner.

These are facts of one build, not of a version; a new build gets a row here, recorded from it.
"""

from __future__ import annotations

from typing import NamedTuple

# Texts in a kernel's README by which kernels are told apart, for the fixture `choose`.
EPROBES = "<attached-group>"  # 5.15: event probes
AUTO = "[:[<group>/][<event>]]"  # 6.0: a probe may be named by its group alone
SYMSTR = "symstr, "  # 6.2, and 6.1.190
BTF = "<argname>"  # 6.5: parameters by their names in C
DENTRY = "%pd/%pD"  # 6.10
BY_MODULE = ":mod:<module>"  # 6.14: set_event takes the events of a module
AT_THE_TOP = "\n  synthetic_events"  # 7.0: named without events/
CURRENT = "$current"  # 7.3


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
    extends_sign: bool = False  # an int comes to ksys_fadvise64_64 and do_sys_openat2 with its sign in all 64 bits
    trampoline: str = "arch_rethook_trampoline+0x0/0x60"  # of return probes
    inside: str = "..Zff "  # what the trace says of where a probe that uses a breakpoint is hit
    opens_return_long: bool = True  # do_sys_openat2 gives all 64 bits of a refusal, not those of an int


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
        (
            "5.10.0-46-cloud-amd64",
            Build(
                openat2="do_sys_openat2+0x0/0x160",
                openat="__x64_sys_openat+0x54/0xa0",
                clone="kernel_clone+0x0/0x3f0",
                fork="__do_sys_fork+0x34/0x60",
                fadvise="ksys_fadvise64_64+0x0/0xa0",
                fadvise_entry="__x64_sys_fadvise64+0x1a/0x30",
                stack=("do_syscall_64+0x33/0x40", "entry_SYSCALL_64_after_hwframe+0x67/0xd1"),
                boundary=5,
                banner="Linux version 5.10.0-46-cloud-amd64 (debian-kernel@lists.debian.org) (gcc-10 (Debian 10.2."
                "1-6) 10.2.1 20210110, GNU ld (GNU Binutils for Debian) 2.35.2) #1 SMP Debian 5.10.262-1 (2"
                "026-07-31)\n",
                dangling=True,
                extends_sign=True,
                trampoline="kretprobe_trampoline+0x0/0x50",
                inside="d.Z. ",
            ),
        ),
        (
            "6.12.117+deb13-cloud-amd64",
            Build(
                openat2="do_sys_openat2+0x0/0xe0",
                openat="__x64_sys_openat+0x55/0xa0",
                clone="kernel_clone+0x4/0x440",
                fork="__do_sys_fork+0x3e/0x70",
                fadvise="ksys_fadvise64_64+0x4/0xa0",
                fadvise_entry="__x64_sys_fadvise64+0x1c/0x30",
                stack=("do_syscall_64+0x87/0x180", "entry_SYSCALL_64_after_hwframe+0x76/0x7e"),
                boundary=5,
                banner="Linux version 6.12.117+deb13-cloud-amd64 (debian-kernel@lists.debian.org) (x86_64-linux-gn"
                "u-gcc-14 (Debian 14.2.0-19) 14.2.0, GNU ld (GNU Binutils for Debian) 2.44) #1 SMP PREEMPT_"
                "DYNAMIC Debian 6.12.117-1 (2026-11-12)\n",
                dangling=False,
            ),
        ),
        (
            "6.19.14+deb13-cloud-amd64",
            Build(
                openat2="do_sys_openat2+0x0/0xf0",
                openat="__x64_sys_openat+0x54/0xa0",
                clone="kernel_clone+0x4/0x480",
                fork="__do_sys_fork+0x3d/0x70",
                fadvise="ksys_fadvise64_64+0x4/0xb0",
                fadvise_entry="__x64_sys_fadvise64+0x1c/0x30",
                stack=("do_syscall_64+0x85/0x5f0", "entry_SYSCALL_64_after_hwframe+0x76/0x7e"),
                boundary=5,
                banner="Linux version 6.19.14+deb13-cloud-amd64 (debian-kernel@lists.debian.org) (x86_64-linux-gnu-"
                "gcc-14 (Debian 14.2.0-19) 14.2.0, GNU ld (GNU Binutils for Debian) 2.44) #1 SMP PREEMPT_DY"
                "NAMIC Debian 6.19.14-1~bpo13+1 (2026-05-01)\n",
                dangling=True,
                opens_return_long=False,
            ),
        ),
        (
            "7.2.13+deb14-cloud-amd64",
            Build(
                openat2="do_sys_openat2+0x0/0xe0",
                openat="__x64_sys_openat+0x61/0xa0",
                clone="kernel_clone+0x4/0x510",
                fork="__do_sys_fork+0x69/0x90",
                fadvise="ksys_fadvise64_64+0x4/0xc0",
                fadvise_entry="__x64_sys_fadvise64+0x1c/0x30",
                stack=("do_syscall_64+0xe1/0x610", "entry_SYSCALL_64_after_hwframe+0x76/0x7e"),
                boundary=5,
                banner="Linux version 7.2.13+deb14-cloud-amd64 (debian-kernel@lists.debian.org) (x86_64-linux-gnu-"
                "gcc-16 (Debian 16.2.0-4) 16.2.0, GNU ld (GNU Binutils for Debian) 2.47.50.20261021) #1 SMP"
                " PREEMPT_DYNAMIC Debian 7.2.13-1 (2026-10-28)\n",
                dangling=True,
                opens_return_long=False,
            ),
        ),
        (
            "7.3-cloud-amd64",
            Build(
                openat2="do_sys_openat2+0x0/0xe0",
                openat="__x64_sys_openat+0x61/0xa0",
                clone="kernel_clone+0x4/0x510",
                fork="__do_sys_fork+0x69/0x90",
                fadvise="ksys_fadvise64_64+0x4/0xc0",
                fadvise_entry="__x64_sys_fadvise64+0x1c/0x30",
                stack=("do_syscall_64+0xbe/0x530", "entry_SYSCALL_64_after_hwframe+0x76/0x7e"),
                boundary=5,
                banner="Linux version 7.3-cloud-amd64 (debian-kernel@lists.debian.org) (x86_64-linux-gnu-gcc-16 (D"
                "ebian 16.2.0-3) 16.2.0, GNU ld (GNU Binutils for Debian) 2.47) #1 SMP PREEMPT_DYNAMIC Debi"
                "an 7.3~rc7-1~exp1 (2026-10-16)\n",
                dangling=True,
                opens_return_long=False,
            ),
        ),
    ]
)


def build_of(release: str) -> Build:
    """Return the facts of a build; fail if nobody has recorded them."""
    assert release in BUILDS, f"record what {release} shows of itself in {__name__}.BUILDS"
    return BUILDS[release]
