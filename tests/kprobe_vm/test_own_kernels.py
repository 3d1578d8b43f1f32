"""Kernels that come as a file: where their modules are found, and what is said where they aren't."""

from __future__ import annotations

import gzip
import lzma
import os
from pathlib import Path

import pytest

from kprobe_vm import Machine
from kprobe_vm.cli import main
from kprobe_vm.errors import ExtraMissing, NoSuchKernel, NotReady, PackageCorrupt
from kprobe_vm.host.cache import Cache
from kprobe_vm.images.kernels import Kernels
from kprobe_vm.images.modules import modules_below, modules_beside
from kprobe_vm.recording import booted

RELEASE = "6.8.0-50-generic"
VIRTIO = b"\0depends=\0"
PORT = b"\0depends=virtio\0"


@pytest.mark.parametrize("below", ["", RELEASE, f"lib/modules/{RELEASE}", f"usr/lib/modules/{RELEASE}"])
def test_modules_are_unpacked_and_in_order(tmp_path: Path, below: str) -> None:
    drivers = tmp_path / "given" / below / "kernel/drivers"
    drivers.mkdir(parents=True)
    (drivers / "virtio-console.ko.xz").write_bytes(lzma.compress(PORT))
    (drivers / "virtio.ko.gz").write_bytes(gzip.compress(VIRTIO))
    (drivers / "virtio_net.ko").write_bytes(PORT)
    found = modules_below(tmp_path / "given", RELEASE, Cache(tmp_path / "cache"))
    assert [(path.name.partition("-")[0], path.read_bytes()) for path in found] == [
        ("virtio", VIRTIO),
        ("virtio_console", PORT),
    ]


def test_of_several_releases_it_is_the_kernels_own(tmp_path: Path) -> None:
    for release, content in (("6.8.0-49-generic", b"old"), (RELEASE, VIRTIO), ("6.8.0-51-generic", b"new")):
        (tmp_path / release).mkdir()
        (tmp_path / release / "virtio_pci.ko").write_bytes(content)
    (found,) = modules_below(tmp_path, RELEASE, Cache(tmp_path / "cache"))
    assert found.read_bytes() == VIRTIO


def test_a_kernel_that_has_virtio_built_in(tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    assert modules_below(tmp_path / "given", RELEASE, Cache(tmp_path / "cache")) == ()


@pytest.mark.parametrize(
    ("kernel", "modules"),
    [
        ("bzImage", "modules"),
        ("bzImage", f"lib/modules/{RELEASE}"),
        (f"boot/vmlinuz-{RELEASE}", f"lib/modules/{RELEASE}"),
        (f"boot/vmlinuz-{RELEASE}", f"usr/lib/modules/{RELEASE}"),
    ],
)
def test_where_modules_lie_beside_a_kernel(tmp_path: Path, kernel: str, modules: str) -> None:
    assert modules_beside(tmp_path / kernel, RELEASE) is None
    (tmp_path / modules).mkdir(parents=True)
    (tmp_path / kernel).parent.mkdir(exist_ok=True)
    assert modules_beside(tmp_path / kernel, RELEASE) == tmp_path / modules


def test_a_vmlinux_without_an_entry_names_the_bzimage(tmp_path: Path) -> None:
    path = tmp_path / "vmlinux"
    path.write_bytes(b"\x7fELF\x02\x01\x01".ljust(18, b"\0") + b"\x3e\0" + bytes(100))
    with pytest.raises(NoSuchKernel, match=r"a vmlinux that QEMU can't start by itself .*: name the bzImage"):
        Kernels(Cache(tmp_path / "cache"), lambda _line: None).get(str(path))


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NoSuchKernel, match=r"/nowhere: no directory with a kernel's modules$"):
        modules_below(tmp_path / "nowhere", RELEASE, Cache(tmp_path / "cache"))


def test_a_damaged_module(tmp_path: Path) -> None:
    (tmp_path / "virtio_pci.ko.xz").write_bytes(b"damaged")
    with pytest.raises(PackageCorrupt, match=r"/virtio_pci\.ko\.xz can't be unpacked: Input format not supported"):
        modules_below(tmp_path, RELEASE, Cache(tmp_path / "cache"))


def test_modules_are_for_a_path(tmp_path: Path) -> None:
    with pytest.raises(NoSuchKernel, match=r"^6\.1 isn't a path \(which has a /\): modules are for a kernel that"):
        Kernels(Cache(tmp_path), lambda _line: None).get("6.1", tmp_path)


@pytest.mark.requires("capstone")
def test_what_record_needs_is_looked_at_before_anything_is_booted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text("# CONFIG_KPROBES is not set\n")
    assert (
        main(["-q", "record", "/no/kernel", str(tmp_path), "--config", f"{tmp_path}/nowhere"]) == NotReady.exit_status
    )
    assert main(["-q", "record", "/no/kernel", str(tmp_path), "--config", f"{tmp_path}/config"]) == NotReady.exit_status
    monkeypatch.setattr(booted.importlib.util, "find_spec", lambda name: None)
    assert main(["-q", "record", "/no/kernel", str(tmp_path)]) == ExtraMissing.exit_status
    assert capsys.readouterr().err.splitlines() == [
        f"kprobe-vm: [Errno 2] No such file or directory: '{tmp_path}/nowhere'",
        f"kprobe-vm: {tmp_path}/config isn't a kernel configuration: it has no line CONFIG_NAME=VALUE",
        "kprobe-vm: recording needs the Python package capstone: pip install 'kprobe-sim[record]'",
    ]


def of_release(path: Path) -> tuple[bytes, str]:
    """Read an image as one of `RELEASE`."""
    if path.name == "nowhere":
        raise NoSuchKernel(f"{path}: No such file or directory")
    return b"", RELEASE


def test_the_configuration_beside_an_image_is_found_by_its_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in /boot, and beside the file that a link such as /vmlinuz leads to."""
    monkeypatch.setattr(booted, "image_of", of_release)
    boot = tmp_path / "boot"
    boot.mkdir()
    image = boot / "vmlinuz-mine"
    image.touch()
    assert booted.config_beside(str(image)) is None
    (boot / f"config-{RELEASE}").write_text("CONFIG_HZ=250\n")
    (boot / "config-6.8.0-49-generic").write_text("CONFIG_HZ=100\n")
    (tmp_path / "vmlinuz").symlink_to(image)
    for path in (image, tmp_path / "vmlinuz"):
        found = booted.config_beside(str(path))
        assert found is not None
        assert found.read_text() == "CONFIG_HZ=250\n"
    assert booted.config_beside(str(boot / "nowhere")) is None
    assert booted.config_beside("6.1") is None


class Booting:
    """A guest that is never started, with or without /proc/config.gz."""

    def __init__(self, has_config: bool) -> None:
        self.files = self
        self.tracefs = self
        self._has_config = has_config

    def __enter__(self) -> Booting:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def exists(self, path: str) -> bool:
        return self._has_config and path == "proc/config.gz"


@pytest.mark.requires("capstone")
@pytest.mark.parametrize(
    ("has_config", "given", "expected"),
    [(False, "", "CONFIG_HZ=250\n"), (True, "", None), (True, "CONFIG_HZ=300\n", "CONFIG_HZ=300\n")],
)
def test_the_configuration_is_what_is_given_else_the_guests_own_else_the_one_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_config: bool, given: str, expected: str | None
) -> None:
    monkeypatch.setattr(booted, "image_of", of_release)
    (tmp_path / f"config-{RELEASE}").write_text("CONFIG_HZ=250\n")
    (tmp_path / "given").write_text(given)
    found: list[str | None] = []

    def record(guest: object, into: Path, *, config: str | None, progress: object) -> Path:
        found.append(config)
        return into

    monkeypatch.setattr(booted, "Machine", lambda *words, **options: Booting(has_config))
    monkeypatch.setattr(booted, "record", record)
    booted.record_kernel(str(tmp_path / "vmlinuz"), tmp_path / "made", config=tmp_path / "given" if given else None)
    assert found == [expected]


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A kernel of 6.1, where virtio is modules, whose file says that it is of an unknown build; and its modules."""
    kernel = Kernels(Cache.of(os.environ), lambda _line: None).get("6.1")
    name, other = (
        f"Linux version 6.1.0-{word}-cloud-amd64 (".encode() for word in (kernel.release.split("-")[1], "00")
    )
    path = tmp_path_factory.mktemp("own") / "vmlinux"
    path.write_bytes(kernel.image.read_bytes().replace(name, other))
    return path, kernel.image.parent


@pytest.mark.vm
def test_a_kernel_without_its_modules_is_reached_by_the_serial_port(stranger: tuple[Path, Path]) -> None:
    said: list[str] = []
    with Machine(str(stranger[0]), progress=said.append) as machine:
        assert machine.port == "serial"
        assert machine.tracefs.read("current_tracer") == b"nop\n"
        assert [str(fault) for fault in machine.faults] == [
            "the guest has no virtio port: this kernel has no virtio_pci and virtio_console, or has them as modules, "
            "which are looked for beside it, in modules/ or lib/modules/RELEASE, and where --modules DIR says"
        ]
    assert said[-1].endswith(": by its second serial port, which is slower")


@pytest.mark.vm
def test_modules_beside_the_kernel_are_found(stranger: tuple[Path, Path], tmp_path: Path) -> None:
    image = tmp_path / "vmlinux"
    image.symlink_to(stranger[0])
    (tmp_path / "modules").symlink_to(stranger[1])
    with Machine(str(image)) as machine:
        assert machine.port == "virtio"
        assert not machine.faults


@pytest.mark.vm
def test_a_kernel_with_its_modules_boots(stranger: tuple[Path, Path]) -> None:
    with Machine(str(stranger[0]), modules=stranger[1]) as machine:
        assert {line.split()[0] for line in machine.files.read("proc/modules").decode().splitlines()} == {
            *("virtio", "virtio_ring", "virtio_pci", "virtio_pci_legacy_dev", "virtio_pci_modern_dev"),
            "virtio_console",
        }


@pytest.mark.vm
def test_modules_of_another_kernel_say_so(stranger: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "virtio_pci.ko").write_bytes(VIRTIO)
    with Machine(str(stranger[0]), modules=tmp_path) as machine:
        assert machine.port == "serial"
        assert str(machine.faults[0]).startswith(
            "the guest has no virtio port, as a module that it was given does not load: virtio_pci-"
        )
