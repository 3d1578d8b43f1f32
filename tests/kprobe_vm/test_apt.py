import random

import pytest

from kprobe_vm.debian.apt import Mirrors, mirrors_of
from kprobe_vm.debian.packages import parse_stanzas, version_key
from kprobe_vm.errors import ArchiveUnreachable

SHOWN = """\
Package: linux-image-6.1.0-54-cloud-amd64
Source: linux-signed-amd64 (6.1.190+1)
Version: 6.1.190-1
Installed-Size: 104893
Depends: kmod, linux-base (>= 4.3~), initramfs-tools (>= 0.120+deb8u2) | linux-initramfs-tool
Filename: pool/updates/main/l/linux-signed-amd64/linux-image-6.1.0-54-cloud-amd64_6.1.190-1_amd64.deb
Size: 26685156
SHA256: 5d1a
Description: Linux 6.1 for x86-64 cloud (signed)
 The Linux kernel 6.1 and modules for use on cloud platforms supporting
 x86-64.

Package: busybox-static
Version: 1:1.35.0-4+deb12u1+b1
"""


def test_stanzas_of_an_index() -> None:
    first, second = parse_stanzas(SHOWN)
    assert first["Package"] == "linux-image-6.1.0-54-cloud-amd64"
    assert first["Size"] == "26685156"
    assert (
        first["Description"].splitlines()[1] == "The Linux kernel 6.1 and modules for use on cloud platforms supporting"
    )
    assert second == {"Package": "busybox-static", "Version": "1:1.35.0-4+deb12u1+b1"}


def test_no_stanza_in_nothing() -> None:
    assert parse_stanzas("\n\n") == []


@pytest.mark.parametrize(
    "ordered",
    [
        # the archive's own kernels, as dpkg --compare-versions orders them
        ["6.1.170-3", "6.1.172-1~deb11u1", "6.1.172-1", "6.1.190-1", "6.1.192-1", "6.1.192-2"],
        ["6.12.90-1~bpo12+1", "6.12.90-1", "6.12.90-2", "6.12.100-1~deb12u1", "6.12.100-1"],
        ["7.2.13-1", "7.3~rc7-1~exp1", "7.3-1", "7.3.4-1~bpo13+1"],
        ["9.9-9", "1:0.1-1", "1:1.35.0-4+b1", "1:1.35.0-4+deb12u1+b1"],
        ["1.0", "1.0a", "1.0+b1", "1.0.1"],
    ],
)
def test_versions_sort_as_dpkg_sorts_them(ordered: list[str]) -> None:
    shuffled = list(ordered)
    random.Random(1).shuffle(shuffled)
    assert sorted(shuffled, key=version_key) == ordered


def test_mirrors_are_those_of_the_system() -> None:
    targets = """\
'http://mirror.example/debian/dists/bookworm/InRelease' mirror.example_debian_dists_bookworm_InRelease 0
'http://mirror.example/debian/dists/bookworm/main/binary-amd64/Packages.xz' mirror.example_debian_dists_bookworm 0
'http://mirror.example/debian/dists/bookworm-updates/InRelease' mirror.example_debian_dists_bookworm-updates 0
'http://security.example/debian-security/dists/bookworm-security/InRelease' security.example_debian-security 0
'https://packages.example/apt/dists/cloud-sdk-bookworm/InRelease' packages.example_apt_dists_InRelease 0
"""
    assert mirrors_of(targets) == Mirrors("http://mirror.example/debian", "http://security.example/debian-security")


def test_the_security_archive_is_looked_for_beside_the_other() -> None:
    assert mirrors_of("'http://mirror.example/debian/dists/bookworm/InRelease' mirror 0\n") == Mirrors(
        "http://mirror.example/debian", "http://mirror.example/debian-security"
    )


@pytest.mark.parametrize("targets", ["'http://archive.example/ubuntu/dists/jammy/InRelease' archive 0\n", ""])
def test_a_system_without_a_debian_archive(targets: str) -> None:
    with pytest.raises(ArchiveUnreachable, match="apt's sources name no Debian archive: give the URL of one with"):
        mirrors_of(targets)
