"""What the suite knows of a build is what its profile says: for those that the package has, literally this.

The rows were copied from traces of the kernels in guests, before a profile was asked for them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kprobe_sim.builds.profile import PROFILES, available, load

from .builds import Build, build_of, recorded_of

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


@pytest.mark.parametrize("release", available())
def test_a_build_of_the_package(release: str) -> None:
    assert build_of(load(release)) == BUILDS[release]


def test_the_profile_of_a_guest(tmp_path: Path) -> None:
    """The user's places come before the package, and the first of them before the others."""
    release = "6.1.0-54-cloud-amd64"
    assert recorded_of(release, "vm:6.1", [tmp_path]).path == PROFILES / release
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / release).symlink_to(PROFILES / release)
    assert recorded_of(release, "vm:6.1", [tmp_path, tmp_path / "mine"]).path == tmp_path / "mine" / release


def test_a_profile_of_another_build_of_the_release(tmp_path: Path) -> None:
    release = "6.1.0-54-cloud-amd64"
    banner = load(release).banner
    assert recorded_of(release, "vm:/boot/bzImage", [tmp_path], banner).path == PROFILES / release
    with pytest.raises(LookupError, match=f"no profile of {release}"):
        recorded_of(release, "vm:/boot/bzImage", [tmp_path], banner.replace("#1", "#2"))


@pytest.mark.parametrize(
    ("spec", "command"),
    [("vm:6.5", "kprobe-vm record 6.5"), ("local", "kprobe-sim record-local")],
)
def test_a_guest_without_a_profile(spec: str, command: str) -> None:
    with pytest.raises(LookupError) as refusal:
        recorded_of("6.5.13-mine", spec, [])
    assert str(refusal.value) == (
        "no profile of 6.5.13-mine, from which this suite knows what its functions are; make one with\n"
        f"    {command} -o DIRECTORY/6.5.13-mine.kprofile\n"
        "and name DIRECTORY in KPROBE_SIM_PROFILES"
    )
