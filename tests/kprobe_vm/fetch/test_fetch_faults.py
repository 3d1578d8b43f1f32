"""Every way in which a kernel can't be had, provoked for real: a distinct error, an exit status, and nothing left."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from kprobe_vm.cli import main
from kprobe_vm.debian.packages import Package
from kprobe_vm.errors import (
    ArchiveUnreachable,
    BadSignature,
    CacheCorrupt,
    DiskFull,
    KernelGone,
    MachineError,
    NotReady,
    PackageCorrupt,
    PackageMissing,
    QemuMissing,
    WrongArchitecture,
)
from kprobe_vm.host.cache import Cache

from .archive import Key, LocalArchive, bzimage, deb, kernel_deb, vmlinux
from .conftest import Lab

RELEASE = "6.1.0-54-cloud-amd64"
INDEX = "/debian/dists/bookworm/InRelease"
LISTS = ("/debian/dists/bookworm/main/binary-amd64/Packages", "/debian/dists/bookworm/main/binary-amd64/Packages.xz")


@pytest.fixture
def package(archive: LocalArchive) -> Package:
    made = archive.add_kernel(RELEASE, "6.1.190-1")
    archive.publish()
    return made


def fails(lab: Lab, kind: type[NotReady], words: str = "") -> str:
    """Check that the kernel can't be had for that reason, alike for the library and for the command."""
    with pytest.raises(MachineError) as caught:
        lab.kernels.get("6.1")
    assert type(caught.value) is kind
    assert words in str(caught.value)
    assert main(["-q", "boot", "6.1"]) == kind.exit_status
    return str(caught.value)


def altered(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def lock(lab: Lab, package: Package) -> None:
    lab.hold("6.1", package)
    (lab.cache.directory(".") / "kernels.lock").write_text(lab.lock.text())


# the package


def test_a_package_that_is_not_the_locked_one(lab: Lab, package: Package) -> None:
    lock(lab, package)
    lab.archive.files[f"/debian/{package.filename}"] = altered(lab.archive.files[f"/debian/{package.filename}"])
    fails(lab, PackageCorrupt)
    assert lab.left() == []


def test_a_package_that_is_cut_short(lab: Lab, package: Package) -> None:
    lock(lab, package)
    lab.archive.files[f"/debian/{package.filename}"] = lab.archive.files[f"/debian/{package.filename}"][:-1]
    fails(lab, PackageCorrupt)
    assert lab.left() == []


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda data: b"<html>" + data, "isn't a Debian package"),
        (lambda data: data[:100], "is cut short or damaged"),
        (lambda data: data[: len(data) // 2], "is cut short"),
        (lambda data: data.replace(b"data.tar.xz", b"data.tar.br"), "with an unknown compression"),
        (lambda data: data[:-300_000] + bytes(300_000), "can't be unpacked"),
    ],
)
def test_a_package_that_was_built_badly(
    lab: Lab, package: Package, spoil: Callable[[bytes], bytes], words: str
) -> None:
    """Its hash is right, so the archive itself has it so."""
    data = spoil(kernel_deb(RELEASE, "6.1.190-1"))
    lock(lab, lab.archive.add("linux-image-" + RELEASE, "6.1.190-1", data))
    fails(lab, PackageCorrupt, words)


def test_a_package_without_a_kernel(lab: Lab, archive: LocalArchive) -> None:
    data = deb("Package: x\nArchitecture: amd64\n", {"usr/share/doc/x": b"x"})
    lock(lab, archive.add("linux-image-" + RELEASE, "6.1.190-1", data))
    fails(lab, PackageCorrupt, "linux-image-6.1.0-54-cloud-amd64 6.1.190-1 holds no kernel")


def test_a_package_for_another_architecture(lab: Lab, archive: LocalArchive) -> None:
    data = kernel_deb(RELEASE, "6.1.190-1", "arm64")
    lock(lab, archive.add("linux-image-" + RELEASE, "6.1.190-1", data))
    fails(lab, WrongArchitecture, "is for arm64, not for amd64")
    assert not list((lab.cache.root / "kernels").iterdir())


ARM64_IMAGE = bytes(0x38) + b"ARM\x64" + bytes(4096)
ARM64_ELF = b"\x7fELF\2\1\1" + bytes(9) + b"\2\0\xb7\0" + bytes(4096)


@pytest.mark.parametrize(
    ("image", "processor"), [(ARM64_IMAGE, "arm64"), (ARM64_ELF, "arm64"), (bzimage(RELEASE, 0), "i386")]
)
def test_a_kernel_for_another_architecture(lab: Lab, archive: LocalArchive, image: bytes, processor: str) -> None:
    lock(lab, archive.add("linux-image-" + RELEASE, "1", kernel_deb(RELEASE, "1", image=image)))
    fails(lab, WrongArchitecture, f"is for {processor}")
    file = lab.cache.root.parent / "Image"
    file.write_bytes(image)
    with pytest.raises(WrongArchitecture, match=f"is a kernel for {processor}, not for x86-64"):
        lab.kernels.get(str(file))


# the index


def bad_index(archive: LocalArchive) -> dict[str, Callable[[], bytes]]:
    signed = archive.files[INDEX]
    other = Key()
    try:
        by_other = other.clearsign(b"Suite: bookworm\n")
    finally:
        other.forget()
    return {
        "altered": lambda: signed.replace(b"Origin: Debian", b"Origin: Someone"),
        "by another key": lambda: by_other,
        "unsigned": lambda: b"Suite: bookworm\nSHA256:\n",
        "two messages": lambda: by_other + signed,
        "text before": lambda: b"SHA256:\n 0 0 main/binary-amd64/Packages\n" + signed,
    }


@pytest.mark.slow
@pytest.mark.parametrize("what", ["altered", "by another key", "unsigned", "two messages", "text before"])
def test_an_index_that_is_signed_badly(lab: Lab, package: Package, what: str) -> None:
    lab.archive.files[INDEX] = bad_index(lab.archive)[what]()
    fails(lab, BadSignature)
    assert not any(path.startswith("/debian/pool") for path in lab.archive.asked)
    assert lab.left() == []


# the index names both; with gpgv it is the packed one that is taken
@pytest.mark.parametrize(("lab", "name"), [("web", LISTS[1]), ("apt", LISTS[0]), ("apt", LISTS[1])], indirect=["lab"])
def test_a_list_of_packages_that_was_not_signed(lab: Lab, package: Package, name: str) -> None:
    for other in set(LISTS) - {name}:
        del lab.archive.files[other]
    lab.archive.files[name] = altered(lab.archive.files[name])
    fails(lab, PackageCorrupt)
    assert not any(path.startswith("/debian/pool") for path in lab.archive.asked)


@pytest.mark.parametrize("lab", ["web"], indirect=True)
@pytest.mark.parametrize(
    ("times", "words"),
    [
        ("Date: Sat, 21 Nov 2020 00:00:00 UTC\nValid-Until: Sat, 28 Nov 2020 00:00:00 UTC\n", "expired"),
        ("Date: Sat, 21 Nov 2099 00:00:00 UTC\n", "not valid yet"),
    ],
)
def test_an_index_of_another_time(lab: Lab, package: Package, times: str, words: str) -> None:
    """apt refuses it likewise, unless the machine's own settings say otherwise (Acquire::Check-Valid-Until)."""
    lab.archive.times = times
    lab.archive.publish()
    fails(lab, BadSignature, words)


@pytest.mark.parametrize("lab", ["web"], indirect=True)
def test_the_index_of_another_suite(lab: Lab, package: Package) -> None:
    """apt takes it, with a warning."""
    lab.archive.suite = "trixie"
    lab.archive.publish()
    lab.archive.files[INDEX] = lab.archive.files[INDEX.replace("bookworm", "trixie")]
    fails(lab, BadSignature, "gives the index of trixie for that of bookworm")


# the way there


def test_an_archive_that_is_not_reached(lab: Lab, package: Package) -> None:
    lab.archive.close()
    fails(lab, ArchiveUnreachable)
    lock(lab, package)
    fails(lab, ArchiveUnreachable)


def test_the_keyring_is_missing(lab: Lab, package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.environment["KPROBE_VM_KEYRING"] = "/nonexistent/keyring.gpg"
    monkeypatch.setenv("KPROBE_VM_KEYRING", "/nonexistent/keyring.gpg")
    fails(lab, PackageMissing, "apt-get install debian-archive-keyring")


def test_neither_apt_nor_gpgv(lab: Lab, package: Package, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    needed = {"apt": "apt-get install apt", "web": "apt-get install gpgv"}
    fails(lab, PackageMissing, needed[lab.way])


def test_a_kernel_that_is_gone(lab: Lab, package: Package) -> None:
    lock(lab, package._replace(filename="pool/gone.deb", sha256="0" * 64))
    fails(lab, KernelGone)


def test_a_kernel_is_looked_for_before_qemu(lab: Lab, package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with it is said where there is no QEMU, too; where nothing is, it has been fetched."""

    def no_qemu(_cache: Cache) -> tuple[str, str]:
        raise QemuMissing

    monkeypatch.setattr("kprobe_vm.machine.machine._qemu", no_qemu)
    lock(lab, package._replace(filename="pool/gone.deb", sha256="0" * 64))
    assert main(["-q", "boot", "6.1"]) == KernelGone.exit_status
    lock(lab, package)
    assert main(["-q", "boot", "6.1"]) == QemuMissing.exit_status
    assert lab.kernels.cached() != []


# the cache


@pytest.mark.slow
def test_a_damaged_cache_heals(lab: Lab, package: Package) -> None:
    lock(lab, package)
    tree = lab.kernels.get("6.1").image.parent
    deb_file = lab.cache.root / "packages" / f"{package.sha256}.deb"
    whole = deb_file.read_bytes()
    for spoil in (
        lambda: os.truncate(tree / "vmlinux", 1000),
        lambda: (tree / "vmlinux").unlink(),
        lambda: (tree / "kernel.json").write_text("{"),
        lambda: (tree / "kernel.json").unlink(),
        lambda: shutil.rmtree(tree),
    ):
        for damage in (lambda: None, lambda: deb_file.write_bytes(altered(whole)), lambda: os.truncate(deb_file, 9)):
            spoil()
            damage()
            assert lab.kernels.get("6.1").image.read_bytes() == vmlinux(RELEASE)
            assert deb_file.read_bytes() == whole
    assert f"the cached linux-image-{RELEASE} is damaged: fetching it again" in lab.said


def test_a_damaged_cache_that_cannot_heal(lab: Lab, package: Package) -> None:
    lock(lab, package)
    tree = lab.kernels.get("6.1").image.parent
    os.truncate(tree / "vmlinux", 1000)
    deb_file = lab.cache.root / "packages" / f"{package.sha256}.deb"
    os.truncate(deb_file, 1000)
    lab.archive.close()
    fails(lab, CacheCorrupt, "could not be fetched again")


def test_a_bit_that_fell_over_is_found_by_reading_all(
    lab: Lab, package: Package, capsys: pytest.CaptureFixture[str]
) -> None:
    lock(lab, package)
    image = lab.kernels.get("6.1").image
    image.write_bytes(altered(image.read_bytes()))
    deb_file = lab.cache.root / "packages" / f"{package.sha256}.deb"
    deb_file.write_bytes(altered(deb_file.read_bytes()))
    assert lab.kernels.drop_damaged() == [f"kernels/{image.parent.name}", f"packages/{deb_file.name}"]
    assert lab.kernels.drop_damaged() == []
    assert lab.kernels.get("6.1").image.read_bytes() == vmlinux(RELEASE)


SMALL = """
    import subprocess, sys
    from pathlib import Path
    from kprobe_vm.cli import main
    place, size = sys.argv[1:]
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "none", place], check=True)
    status = main(["-q", "boot", "6.1"])
    print([path.name for path in Path(place, "packages").glob("*.deb")])
    print([str(path) for path in Path(place).rglob(".new-*")])
    sys.exit(status)
"""


@pytest.mark.slow
@pytest.mark.requires("user namespaces")
@pytest.mark.parametrize(
    "size",
    [
        *(500, 1000),  # KiB: the package doesn't fit
        1800,  # the package does, what is in it doesn't
    ],
)
def test_a_full_disk(lab: Lab, package: Package, size: int, tmp_path: Path) -> None:
    lab.cache.root.mkdir()
    lab.hold("6.1", package)
    (tmp_path / "named.lock").write_text(lab.lock.text())
    done = subprocess.run(
        ["unshare", "-rm", sys.executable, "-c", textwrap.dedent(SMALL), str(lab.cache.root), str(size)],
        env={**os.environ, "KPROBE_VM_LOCK": str(tmp_path / "named.lock"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "No space left on device" in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.returncode == DiskFull.exit_status
    packages = [f"{package.sha256}.deb"] if size > 1000 else []
    assert done.stdout.splitlines() == [str(packages), "[]"]


# the user


@pytest.mark.slow
@pytest.mark.parametrize("whom", ["the terminal", "the process"])
def test_ctrl_c_in_a_fetch(lab: Lab, package: Package, whom: str) -> None:
    """Nothing half is left, no process, no lock; the next fetch works."""
    lock(lab, package)
    lab.archive.stuck.add(f"/debian/{package.filename}")
    child = subprocess.Popen(
        [sys.executable, "-m", "kprobe_vm", "boot", "6.1"], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert lab.archive.halfway.wait(30)
    if whom == "the terminal":
        os.killpg(child.pid, signal.SIGINT)
    else:
        os.kill(child.pid, signal.SIGINT)
    _, said = child.communicate(timeout=20)
    assert child.returncode == 130
    assert "Traceback" not in said
    assert lab.left() == []
    for _ in range(100):  # what apt started may take a moment to see that it's alone
        try:
            os.killpg(child.pid, 0)
        except ProcessLookupError:
            break
        signal.sigtimedwait([], 0.05)
    else:
        pytest.fail("a process of the fetch is left")
    lab.archive.stuck.clear()
    assert lab.kernels.get("6.1").release == RELEASE


def test_a_proxy_that_gives_another_file_of_the_same_size(lab: Lab, package: Package) -> None:
    lock(lab, package)
    page = b"<html>log in first</html>".ljust(package.size)
    assert hashlib.sha256(page).hexdigest() != package.sha256
    lab.archive.files[f"/debian/{package.filename}"] = page
    fails(lab, PackageCorrupt)
