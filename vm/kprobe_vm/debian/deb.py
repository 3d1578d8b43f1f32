"""Debian's package files (deb(5)), read without dpkg: an ar archive of two tar archives."""

from __future__ import annotations

import contextlib
import gzip
import io
import lzma
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from kprobe_vm.errors import PackageCorrupt, PackageMissing

MAGIC = b"!<arch>\n"
HEADER = 60


@contextlib.contextmanager
def members(deb: Path) -> Iterator[Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]]:
    """Yield the files of a package in their order, each with its content if it is a regular file.

    The content is to be read before the next is taken.  Raise `PackageCorrupt` if it can't be unpacked,
    `PackageMissing` if a command for that is missing.
    """
    with open(deb, "rb") as file, _broken(deb), _tar(deb, file, "data.tar") as archive:
        yield ((member, archive.extractfile(member) if member.isreg() else None) for member in archive)


def control(deb: Path) -> dict[str, str]:
    """Return the one-line fields of a package's control file, such as Package, Version, Architecture."""
    with open(deb, "rb") as file, _broken(deb), _tar(deb, file, "control.tar") as archive:
        for member in archive:
            if member.isreg() and member.name.rpartition("/")[2] == "control":
                content = archive.extractfile(member)
                assert content is not None
                lines = content.read().decode("utf-8", "replace").splitlines()
                pairs = [line.partition(":") for line in lines if line[:1] not in (" ", "\t")]
                return {name: value.strip() for name, _, value in pairs}
    raise PackageCorrupt(f"{deb} holds no control file")


@contextlib.contextmanager
def _broken(deb: Path) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, lzma.LZMAError, gzip.BadGzipFile, EOFError, ValueError) as error:
        raise PackageCorrupt(f"{deb} can't be unpacked: {error or type(error).__name__}") from error


@contextlib.contextmanager
def _tar(deb: Path, file: IO[bytes], prefix: str) -> Iterator[tarfile.TarFile]:
    name, part = _part(deb, file, prefix)
    with contextlib.ExitStack() as stack:
        if name == f"{prefix}.xz":
            plain = cast(IO[bytes], stack.enter_context(lzma.open(part)))
        elif name == f"{prefix}.gz":
            plain = cast(IO[bytes], stack.enter_context(gzip.open(part)))
        elif name == prefix:
            plain = cast(IO[bytes], part)
        elif name == f"{prefix}.zst":
            plain = io.BytesIO(_zstd(part.read()))
        else:
            raise PackageCorrupt(f"{deb} has a member {name}, with an unknown compression")
        yield stack.enter_context(tarfile.open(fileobj=plain, mode="r|"))


def _part(deb: Path, file: IO[bytes], prefix: str) -> tuple[str, io.BytesIO]:
    """Return the member of the ar archive whose name has a prefix."""
    if file.read(len(MAGIC)) != MAGIC:
        raise PackageCorrupt(f"{deb} isn't a Debian package")
    while header := file.read(HEADER):
        if len(header) < HEADER or header[58:] != b"`\n":
            raise PackageCorrupt(f"{deb} is cut short or damaged")
        name, size = header[:16].decode("ascii", "replace").strip().rstrip("/"), int(header[48:58])
        if name.startswith(prefix):
            data = file.read(size)
            if len(data) < size:
                raise PackageCorrupt(f"{deb} is cut short: {len(data)} bytes of {size} in {name}")
            return name, io.BytesIO(data)
        file.seek(size + size % 2, io.SEEK_CUR)
    raise PackageCorrupt(f"{deb} has no {prefix}")


def _zstd(packed: bytes) -> bytes:
    program = shutil.which("zstd")
    if program is None:
        raise PackageMissing("zstd", "zstd", "unpacks packages that are compressed with zstd")
    done = subprocess.run([program, "-dcq"], input=packed, capture_output=True, check=False)
    if done.returncode:
        raise ValueError(f"zstd: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
