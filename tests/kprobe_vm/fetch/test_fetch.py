"""Kernels from an archive, on both ways to it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kprobe_vm.cli import main
from kprobe_vm.debian import deb
from kprobe_vm.debian.lock import Lock, Locked
from kprobe_vm.errors import KernelGone, NoSuchKernel

from .archive import LocalArchive, bzimage, package_of, vmlinux
from .archive import deb as packed
from .conftest import Lab

OLD, NEW = "6.1.0-54-cloud-amd64", "6.1.0-56-cloud-amd64"


@pytest.fixture
def stocked(archive: LocalArchive) -> LocalArchive:
    archive.add_kernel(OLD, "6.1.190-1")
    archive.add_kernel(NEW, "6.1.192-2")
    archive.add_kernel("5.10.0-46-cloud-amd64", "5.10.262-1")
    archive.publish()
    return archive


@pytest.mark.slow
def test_the_newest_of_a_series_is_locked_from_then_on(lab: Lab, stocked: LocalArchive) -> None:
    kernel = lab.kernels.get("6.1")
    assert (kernel.release, kernel.series, kernel.package_version) == (NEW, "6.1", "6.1.192-2")
    assert kernel.image.read_bytes() == vmlinux(NEW)
    assert "no lock names 6.1: it is 6.1.192-2 from now on" in lab.said
    stocked.add_kernel("6.1.0-57-cloud-amd64", "6.1.193-1")
    stocked.publish()
    shutil.rmtree(lab.cache.root / "kernels")
    assert lab.kernels.get("6.1").release == NEW


def test_a_locked_kernel_needs_no_index(lab: Lab, stocked: LocalArchive) -> None:
    lab.hold("6.1", stocked.packages[0])
    assert lab.kernels.get("6.1").release == OLD
    assert stocked.asked == [f"/debian/{stocked.packages[0].filename}"]


def test_a_cached_kernel_needs_no_network(lab: Lab, stocked: LocalArchive) -> None:
    lab.hold("6.1", stocked.packages[0])
    first = lab.kernels.get("6.1")
    asked = list(stocked.asked)
    assert lab.kernels.get("6.1") == first
    assert lab.kernels.get(OLD) == first
    assert lab.kernels.get("6.1.0-54") == first
    assert stocked.asked == asked


def test_a_release(lab: Lab, stocked: LocalArchive) -> None:
    assert lab.kernels.get("6.1.0-54").release == OLD
    assert lab.kernels.get(NEW).release == NEW


@pytest.mark.slow
def test_other_flavours(lab: Lab, archive: LocalArchive) -> None:
    """A series alone means a cloud kernel; others are asked for by their names, and locked beside it."""
    archive.suite = "trixie"
    for flavour in ("amd64", "cloud-amd64", "rt-amd64"):
        archive.add_kernel(f"6.12.117+deb13-{flavour}", "6.12.117-1")
    archive.add_kernel("6.12.116+deb13-rt-amd64", "6.12.116-1")
    archive.publish()
    assert lab.kernels.get("6.12").release == "6.12.117+deb13-cloud-amd64"
    assert lab.kernels.get("6.12-rt-amd64").release == "6.12.117+deb13-rt-amd64"
    assert lab.kernels.get("6.12-amd64").release == "6.12.117+deb13-amd64"
    assert lab.kernels.get("6.12.116+deb13-rt-amd64").package_version == "6.12.116-1"
    assert lab.kernels.get("6.12.117+deb13").release == "6.12.117+deb13-cloud-amd64"
    with pytest.raises(NoSuchKernel, match=r"^Debian offers no kernel 6\.1 for rt-amd64 in bookworm, "):
        lab.kernels.get("6.1-rt-amd64")


@pytest.mark.slow
def test_the_split_packages_from_6_19_on(tmp_path: Path, key: object, lab: Lab, archive: LocalArchive) -> None:
    """linux-image is a small metapackage there and linux-binary has the kernel; where in it, differs."""
    archive.suite = "trixie-backports"
    for release, version in (
        ("6.18.15+deb13-cloud-amd64", "6.18.15-1~bpo13+1"),
        ("6.19.14+deb13-cloud-amd64", "6.19.14-1~bpo13+1"),
        ("7.2.12+deb13-cloud-amd64", "7.2.12-1~bpo13+1"),
    ):
        archive.add_kernel(release, version)
        if package_of(release).startswith("linux-binary"):
            control = f"Package: linux-image-{release}\nVersion: {version}\nArchitecture: amd64\n"
            archive.add(f"linux-image-{release}", version, packed(control, {}))
    archive.publish()
    for series in ("6.18", "6.19", "7.2"):
        kernel = lab.kernels.get(series)
        assert kernel.series == series
        assert kernel.image.read_bytes() == vmlinux(kernel.release)


def test_a_kernel_that_is_gone_names_the_nearest(lab: Lab, stocked: LocalArchive) -> None:
    gone = stocked.packages[0]
    lab.hold("6.1", gone._replace(version="6.1.187-1", filename="pool/gone.deb", sha256="0" * 64))
    with pytest.raises(KernelGone) as caught:
        lab.kernels.get("6.1")
    assert str(caught.value) == (
        "Debian no longer has linux-image-6.1.0-54-cloud-amd64 6.1.187-1; the nearest is 6.1.0-54-cloud-amd64 "
        "(6.1.190-1): ask for that one, or renew the lock: kprobe-vm update 6.1"
    )


def test_a_kernel_that_is_gone_runs_from_the_cache(lab: Lab, stocked: LocalArchive) -> None:
    lab.hold("6.1", stocked.packages[0])
    lab.kernels.get("6.1")
    stocked.files.clear()
    assert lab.kernels.get("6.1").release == OLD


def test_a_kernel_that_has_moved_in_the_pool(lab: Lab, stocked: LocalArchive) -> None:
    """As when a security update gets into the next point release."""
    lab.hold("6.1", stocked.packages[0]._replace(filename="pool/updates/main/l/linux/old-place.deb"))
    assert lab.kernels.get("6.1").package_version == "6.1.190-1"


@pytest.mark.parametrize(
    ("spec", "kind", "words"),
    [
        ("6.1.0-99", KernelGone, "no kernel 6.1.0-99 (any more); the nearest is 6.1.0-56-cloud-amd64"),
        ("4.19", NoSuchKernel, "Debian offers no kernel 4.19"),
    ],
)
def test_what_was_never_there(lab: Lab, stocked: LocalArchive, spec: str, kind: type[NoSuchKernel], words: str) -> None:
    with pytest.raises(kind) as caught:
        lab.kernels.get(spec)
    assert type(caught.value) is kind
    assert words in str(caught.value)


def test_the_list(lab: Lab, stocked: LocalArchive, capsys: pytest.CaptureFixture[str]) -> None:
    lab.hold("6.1", stocked.packages[0])
    (lab.cache.directory(".") / "kernels.lock").write_text(lab.lock.text())
    lab.kernels.get("6.1")
    assert main(["-q", "list", "6.1", "4.19"]) == 0
    shown = [
        "SERIES  LOCKED     CACHED     OFFERED",
        "6.1     6.1.190-1  6.1.190-1  6.1.192-2 in bookworm; builds: 2",
    ]
    assert capsys.readouterr().out.splitlines() == shown
    asked = len(stocked.asked)
    assert main(["-q", "list", "--offline", "6.1"]) == 0
    assert capsys.readouterr().out.splitlines() == shown
    assert main(["-q", "list", "--offline", "--builds", "6.1"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["SERIES", "VERSION", "SUITE"],
        ["6.1", "6.1.190-1", "bookworm"],
        ["6.1", "6.1.192-2", "bookworm"],
    ]
    assert len(stocked.asked) == asked


def test_update_renews_the_users_lock(lab: Lab, stocked: LocalArchive, capsys: pytest.CaptureFixture[str]) -> None:
    lab.hold("6.1", stocked.packages[0])
    assert main(["-q", "update", "6.1"]) == 0
    assert capsys.readouterr().out == "6.1\t6.1.192-2\twas 6.1.190-1\n"
    assert Lock.read(lab.cache.root / "kernels.lock").kernels == {"6.1": Locked("bookworm", stocked.packages[1])}
    stocked.add_kernel("6.1.0-57-cloud-amd64", "6.1.193-1")
    stocked.publish()
    assert main(["-q", "update", "6.1"]) == 0
    assert capsys.readouterr().out == "6.1\t6.1.193-1\twas 6.1.192-2\n"
    assert lab.kernels.get("6.1").package_version == "6.1.193-1"


@pytest.mark.slow
def test_update_can_write_a_lock_to_keep_with_a_project(
    lab: Lab, stocked: LocalArchive, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.lock"
    assert main(["-q", "update", "--lock", str(path), OLD]) == 0
    assert main(["-q", "update", "--lock", str(path), OLD]) == 0
    assert main(["-q", "update", "--lock", str(path), "4.19", "6.1"]) == 110
    shown, said = capsys.readouterr()
    assert shown.splitlines()[1:] == ["6.1\t6.1.190-1\tas before", "6.1\t6.1.192-2\twas 6.1.190-1"]
    assert said.startswith("kprobe-vm: Debian offers no kernel 4.19")
    assert Lock.read(path).kernels == {"6.1": Locked("bookworm", stocked.packages[1])}
    assert not (lab.cache.root / "kernels.lock").exists()


@pytest.mark.parametrize("compression", ["xz", "gz", pytest.param("zst", marks=pytest.mark.requires("zstd"))])
def test_package_files(tmp_path: Path, compression: str) -> None:
    image = bzimage(OLD)
    file = tmp_path / "package.deb"
    file.write_bytes(packed("Package: a\nVersion: 1\nDescription: b\n c\n", {"x/y": image, "z": b""}, compression))
    assert deb.control(file) == {"Package": "a", "Version": "1", "Description": "b"}
    with deb.members(file) as members:
        assert [(member.name, data.read()) for member, data in members if data] == [("./x/y", image), ("./z", b"")]
