import bz2
import gzip
import lzma
import re
import struct
import subprocess
from pathlib import Path

import pytest

from kprobe_vm.guest.backend import check
from kprobe_vm.images.bzimage import KernelImage, boot_header_version, extract_vmlinux, has_pvh_entry, startable_vmlinux

VMLINUX = b"\x7fELF" + b"kernel " * 1000


def bzimage(payload: bytes, protocol: int = 0x20F) -> bytes:
    """A boot header with one set-up sector, as Documentation/arch/x86/boot.rst lays it out, and a payload."""
    image = bytearray(2048)
    image[0x1F1] = 1
    image[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", image, 0x206, protocol)
    struct.pack_into("<H", image, 0x20E, 0x400 - 0x200)
    image[0x400 : 0x400 + 27] = b"6.1.0-54-cloud-amd64 (x) #1"
    struct.pack_into("<II", image, 0x248, 1024, len(payload))
    return bytes(image) + payload


def sized(packed: bytes) -> bytes:
    return packed + struct.pack("<I", len(VMLINUX))  # the build appends the unpacked size


def test_the_version_is_in_the_header() -> None:
    assert boot_header_version(bzimage(b"")) == "6.1.0-54-cloud-amd64 (x) #1"


PAYLOADS = {
    "gzip": gzip.compress(VMLINUX),  # which ends with the unpacked size anyhow
    "gzip and a size": sized(gzip.compress(VMLINUX)),
    "xz": sized(lzma.compress(VMLINUX)),
    "lzma": sized(lzma.compress(VMLINUX, lzma.FORMAT_ALONE)),
    "bzip2": sized(bz2.compress(VMLINUX)),
    "as it is": VMLINUX,
}


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=list(PAYLOADS))
def test_what_python_can_unpack(payload: bytes) -> None:
    assert extract_vmlinux(bzimage(payload)) == VMLINUX


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["lz4", "-l", "-c"], marks=pytest.mark.requires("lz4"), id="lz4"),
        pytest.param(["zstd", "-c"], marks=pytest.mark.requires("zstd"), id="zstd"),
    ],
)
def test_what_takes_a_command(command: list[str]) -> None:
    packed = subprocess.run(command, input=VMLINUX, capture_output=True, check=True).stdout
    assert extract_vmlinux(bzimage(sized(packed))) == VMLINUX


def test_without_the_command_the_image_stays_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(KernelImage, match="no lz4 command"):
        extract_vmlinux(bzimage(b"\x02\x21\x4c\x18...."))


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (b"", "no boot header"),
        (bytes(4096), "no boot header"),
        (bzimage(b"", protocol=0x207), "protocol 2.07 names no payload"),
        (bzimage(b"????...."), "unknown compression 3f3f3f3f"),
        (bzimage(sized(gzip.compress(b"no kernel"))), "no ELF file"),
    ],
)
def test_what_is_no_kernel_image(image: bytes, words: str) -> None:
    with pytest.raises(KernelImage, match=words):
        extract_vmlinux(image)


def elf(*notes: tuple[bytes, int]) -> bytes:
    """An ELF kernel (elf(5)) of a header, one program header and a section of notes."""
    section = b"".join(
        struct.pack("<III", len(name) + 1, 4, kind)
        + (name + b"\0").ljust(-(-(len(name) + 1) // 4) * 4, b"\0")
        + bytes(4)
        for name, kind in notes
    )
    header = b"\x7fELF\x02\x01\x01".ljust(32, b"\0") + struct.pack("<QQIHHH", 64, 0, 0, 64, 56, 1)
    return header.ljust(64, b"\0") + struct.pack("<IIQQQQQQ", 4, 0, 120, 0, 0, len(section), len(section), 4) + section


def test_a_kernel_that_qemu_cannot_enter_is_left_packed() -> None:
    assert has_pvh_entry(elf((b"GNU", 3), (b"Xen", 18)))
    assert not has_pvh_entry(elf((b"GNU", 18), (b"Xen", 6)))
    assert has_pvh_entry(elf((b"Xen", 18)) + b"Linux version 5.0.0-65-generic (")
    assert not has_pvh_entry(elf((b"Xen", 18)) + b"Linux version 4.15.0-213-generic (")  # for Xen alone
    packed = bzimage(gzip.compress(elf((b"Xen", 6))))
    with pytest.raises(KernelImage, match=r"^the kernel has no PVH entry for QEMU"):
        startable_vmlinux(packed)


def test_a_damaged_payload() -> None:
    with pytest.raises(KernelImage, match="its payload can't be unpacked"):
        extract_vmlinux(bzimage(b"\x1f\x8b\x08\x00damaged, and long enough for its header"))


def for_64_bits(image: bytes) -> bytes:
    return image[:0x236] + b"\1" + image[0x237:]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, ": Is a directory"),
        (b"not a kernel", " is neither a bzImage nor a vmlinux: no boot header"),
        (bzimage(b"")[:0x300], " is neither a bzImage nor a vmlinux: its boot header names a version beyond its end"),
        (
            bzimage(b"k" * 5000)[:-1],
            " is not a complete bzImage: it is cut off: 7047 bytes of the 7048 in its boot header",
        ),
    ],
)
def test_a_spec_of_a_file_that_cannot_be_started(tmp_path: Path, content: bytes | None, words: str) -> None:
    """That is said once, before any test runs."""
    path = tmp_path / "kernel"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(for_64_bits(content))
    with pytest.raises(ValueError, match=f"^{re.escape(str(path) + words)}$"):
        check(str(path))


def test_a_spec_of_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "kernel"
    path.write_bytes(for_64_bits(bzimage(b"k" * 5000)) + b"a signature")
    check(str(path))
