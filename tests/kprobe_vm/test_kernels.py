import struct
from pathlib import Path

import pytest

from kprobe_vm.errors import NoSuchKernel
from kprobe_vm.host.cache import Cache
from kprobe_vm.images.kernels import SERIES, Kernels, series_of, suites_for
from kprobe_vm.images.modules import load_order

ELF_X86_64 = b"\x7fELF\2\1\1" + bytes(9) + b"\2\0\x3e\0"


@pytest.fixture
def kernels(tmp_path: Path) -> Kernels:
    return Kernels(Cache(tmp_path / "cache"), lambda _line: None)


@pytest.mark.parametrize(
    ("release", "series"),
    [
        ("6.1", "6.1"),
        ("6.1.0-54-cloud-amd64", "6.1"),
        ("6.12.57+deb13-cloud-amd64", "6.12"),
        ("7.3-cloud-amd64", "7.3"),
        ("newest", ""),
        ("6", ""),
    ],
)
def test_series_of_a_release(release: str, series: str) -> None:
    assert series_of(release) == series


def test_the_table_names_each_series_once() -> None:
    names = [row.name for row in SERIES]
    assert len(set(names)) == len(names)
    assert {"5.10", "6.1", "6.12", "6.19", "7.2", "7.3"} <= set(names)


def test_where_a_series_is_looked_for() -> None:
    assert suites_for("6.1").suites == ("bookworm", "bookworm-updates", "bookworm-security")
    assert suites_for("6.19").suites == ("trixie-backports",)


def test_an_unknown_series_is_looked_for_in_the_newest_suites() -> None:
    assert suites_for("8.0").suites[-1] == "experimental"


def test_modules_load_after_what_they_need() -> None:
    def module(depends: str) -> bytes:
        return b"\x7fELF...\0license=GPL\0depends=" + depends.encode() + b"\0retpoline=Y\0"

    modules = {
        # as 6.1.190 has them
        "virtio": module("virtio_ring"),
        "virtio_ring": module(""),
        "virtio_pci_modern_dev": module(""),
        "virtio_pci_legacy_dev": module(""),
        "virtio_pci": module("virtio_pci_modern_dev,virtio_pci_legacy_dev,virtio,virtio_ring"),
        "virtio_console": module("virtio_ring,virtio"),
        "virtio_balloon": module("virtio,virtio_ring"),
    }
    assert load_order(modules, ["virtio_pci", "virtio_console"]) == [
        *("virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_ring", "virtio", "virtio_pci", "virtio_console"),
    ]
    assert load_order({}, ["virtio_pci"]) == []  # built in


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("newest", "neither a kernel series"),
        ("/nonexistent/bzImage", "/nonexistent/bzImage: No such file or directory"),
    ],
)
def test_what_is_no_kernel(kernels: Kernels, spec: str, words: str) -> None:
    with pytest.raises(NoSuchKernel, match=words):
        kernels.get(spec)


def test_a_file_that_is_no_kernel(kernels: Kernels, tmp_path: Path) -> None:
    (tmp_path / "bzImage").write_bytes(bytes(4096))
    with pytest.raises(NoSuchKernel, match="neither a bzImage nor a vmlinux"):
        kernels.get(str(tmp_path / "bzImage"))


def test_a_vmlinux_is_taken_as_it_is(kernels: Kernels, tmp_path: Path) -> None:
    header = ELF_X86_64.ljust(32, b"\0") + struct.pack("<QQIHHH", 64, 0, 0, 64, 56, 1)
    notes = struct.pack("<IIQQQQQQ", 4, 0, 120, 0, 0, 20, 20, 4) + struct.pack("<III", 4, 4, 18) + b"Xen\0" + bytes(4)
    (tmp_path / "vmlinux").write_bytes(header.ljust(64, b"\0") + notes)  # the note says where QEMU enters it
    kernel = kernels.get(str(tmp_path / "vmlinux"))
    assert kernel.image == tmp_path / "vmlinux"
    assert kernel.modules == ()


def test_nothing_is_cached_at_first(kernels: Kernels) -> None:
    assert kernels.cached() == []
