"""The uncompressed kernel inside a bzImage (Documentation/arch/x86/boot.rst): QEMU starts it directly, through PVH."""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import struct
import subprocess

__all__ = ["KernelImage", "boot_header_version", "extract_vmlinux"]

ELF = b"\x7fELF"
LZ4_LEGACY = b"\x02\x21\x4c\x18"
ZSTD = b"\x28\xb5\x2f\xfd"


class KernelImage(ValueError):
    """The bytes are no kernel image, or one that can't be unpacked here."""


def boot_header_version(image: bytes) -> str:
    """Return the kernel's version text of a bzImage ("6.1.0-54-cloud-amd64 (...) #1 SMP ..."); raise `KernelImage`."""
    if len(image) < 0x250 or image[0x202:0x206] != b"HdrS":
        raise KernelImage("no boot header")
    (offset,) = struct.unpack_from("<H", image, 0x20E)
    start = offset + 0x200
    return image[start : image.index(b"\0", start)].decode("ascii", "replace")


def _payload(image: bytes) -> bytes:
    boot_header_version(image)
    (protocol,) = struct.unpack_from("<H", image, 0x206)
    if protocol < 0x208:
        raise KernelImage(f"boot protocol {protocol >> 8}.{protocol & 0xFF:02} names no payload")
    sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (sectors + 1) * 512 + offset
    return image[start : start + length]


def _through(program: str, payload: bytes) -> bytes:
    path = shutil.which(program)
    if path is None:
        raise KernelImage(f"no {program} command to unpack it")
    # the build appends the unpacked size, which the commands take for a damaged next frame
    done = subprocess.run([path, "-dc"], input=payload[:-4], capture_output=True, timeout=120, check=False)
    if not done.stdout.startswith(ELF):
        raise KernelImage(f"{program}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def extract_vmlinux(image: bytes) -> bytes:
    """Return the ELF kernel; lz4 and zstd need the command of that name.  Raise `KernelImage` if that fails."""
    payload = _payload(image)
    if payload.startswith(LZ4_LEGACY):
        return _through("lz4", payload)
    if payload.startswith(ZSTD):
        return _through("zstd", payload)
    if payload.startswith(b"\x1f\x8b"):
        unpacked = gzip.decompress(payload[:-4])
    elif payload.startswith(b"\xfd7zXZ\0"):
        unpacked = lzma.LZMADecompressor().decompress(payload)
    elif payload.startswith(b"BZh"):
        unpacked = bz2.decompress(payload[:-4])
    elif payload.startswith(ELF):
        unpacked = payload
    else:
        raise KernelImage(f"unknown compression {payload[:4].hex()}")
    if not unpacked.startswith(ELF):
        raise KernelImage("the payload is no ELF file")
    return unpacked
