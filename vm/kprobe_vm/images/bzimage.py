"""The uncompressed kernel inside a bzImage (Documentation/arch/x86/boot.rst): QEMU starts it directly, through PVH."""

from __future__ import annotations

import bz2
import lzma
import re
import shutil
import struct
import subprocess
import zlib
from collections.abc import Iterator

ELF = b"\x7fELF"
LZ4_LEGACY = b"\x02\x21\x4c\x18"
ZSTD = b"\x28\xb5\x2f\xfd"


_NOTES = 4  # PT_NOTE, elf(5)
_XEN_PHYS32_ENTRY = 18  # XEN_ELFNOTE_PHYS32_ENTRY, include/xen/interface/elfnote.h


class KernelImage(ValueError):
    """The bytes aren't a kernel image, or are one that can't be unpacked here."""


def boot_header_version(image: bytes) -> str:
    """Return the kernel's version text of a bzImage ("6.1.0-54-cloud-amd64 (...) #1 SMP ..."); raise `KernelImage`."""
    if len(image) < 0x250 or image[0x202:0x206] != b"HdrS":
        raise KernelImage("no boot header")
    (offset,) = struct.unpack_from("<H", image, 0x20E)
    start = offset + 0x200
    end = image.find(b"\0", start)
    if end < 0:
        raise KernelImage("its boot header names a version beyond its end")
    return image[start:end].decode("ascii", "replace")


def check_whole(image: bytes) -> None:
    """Raise `KernelImage` for a bzImage that ends before its payload does: such a kernel stops without a word."""
    payload = _payload_place(image)
    if payload is not None and payload.stop > len(image):
        raise KernelImage(f"it is cut off: {len(image)} bytes of the {payload.stop} in its boot header")


def _payload_place(image: bytes) -> slice | None:
    boot_header_version(image)
    (protocol,) = struct.unpack_from("<H", image, 0x206)
    if protocol < 0x208:
        return None
    sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (sectors + 1) * 512 + offset
    return slice(start, start + length)


def _payload(image: bytes) -> bytes:
    payload = _payload_place(image)
    if payload is None:
        protocol = struct.unpack_from("<H", image, 0x206)[0]
        raise KernelImage(f"boot protocol {protocol >> 8}.{protocol & 0xFF:02} names no payload")
    return image[payload]


def _through(program: str, payload: bytes) -> bytes:
    path = shutil.which(program)
    if path is None:
        raise KernelImage(f"no {program} command to unpack it")
    # the build appends the unpacked size, which the commands take for a damaged next frame
    done = subprocess.run([path, "-dc"], input=payload[:-4], capture_output=True, timeout=120, check=False)
    if not done.stdout.startswith(ELF):
        raise KernelImage(f"{program}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def has_pvh_entry(vmlinux: bytes) -> bool:
    """Return whether an ELF kernel says where it is entered through PVH, without which QEMU doesn't start it.

    Before 5.0 that entry is for Xen alone: elsewhere the kernel stops there without a word (seen of 4.15).
    """
    version = re.search(rb"Linux version (\d+)\.(\d+)", vmlinux)
    if len(vmlinux) < 64 or vmlinux[4] != 2 or (version and int(version[1]) < 5):
        return False
    (table,) = struct.unpack_from("<Q", vmlinux, 32)
    size, count = struct.unpack_from("<HH", vmlinux, 54)
    for at in range(table, min(table + size * count, len(vmlinux) - 55), max(size, 1)):
        kind, _flags, offset, _virtual, _physical, length = struct.unpack_from("<IIQQQQ", vmlinux, at)
        if kind == _NOTES and _XEN_PHYS32_ENTRY in _xen_notes(vmlinux[offset : offset + length]):
            return True
    return False


def _xen_notes(notes: bytes) -> Iterator[int]:
    at = 0
    while at + 12 <= len(notes):
        name, description, kind = struct.unpack_from("<III", notes, at)
        if notes[at + 12 : at + 12 + name] == b"Xen\0":
            yield kind
        at += 12 + (name + 3 & ~3) + (description + 3 & ~3)


def startable_vmlinux(image: bytes) -> bytes:
    """Return the ELF kernel of a bzImage if QEMU can start that; else raise `KernelImage`."""
    unpacked = extract_vmlinux(image)
    if not has_pvh_entry(unpacked):
        raise KernelImage("the kernel has no PVH entry for QEMU (CONFIG_PVH, since 5.0)")
    return unpacked


def _unpacked(payload: bytes) -> bytes:
    """Unpack what Python can; the build appends the size to all but gzip's, which ends with it; none minds."""
    if payload.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(wbits=31).decompress(payload)
    if payload.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMADecompressor().decompress(payload)
    if payload.startswith(b"\x5d\0\0"):
        return lzma.LZMADecompressor(lzma.FORMAT_ALONE).decompress(payload)
    if payload.startswith(b"BZh"):
        return bz2.BZ2Decompressor().decompress(payload)
    if payload.startswith(ELF):
        return payload
    raise KernelImage(f"unknown compression {payload[:4].hex()}")


def extract_vmlinux(image: bytes) -> bytes:
    """Return the ELF kernel; lz4 and zstd need the command of that name.  Raise `KernelImage` if that fails."""
    payload = _payload(image)
    if payload.startswith(LZ4_LEGACY):
        return _through("lz4", payload)
    if payload.startswith(ZSTD):
        return _through("zstd", payload)
    try:
        unpacked = _unpacked(payload)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise KernelImage(f"its payload can't be unpacked: {error}") from error
    if not unpacked.startswith(ELF):
        raise KernelImage("the payload is no ELF file")
    return unpacked
