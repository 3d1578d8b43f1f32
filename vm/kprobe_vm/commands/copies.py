"""Files of the host for the guest: a file, a program, or a directory with everything in it."""

from __future__ import annotations

import contextlib
import io
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kprobe_vm.images.bzimage import ELF

if TYPE_CHECKING:
    from kprobe_vm.machine.machine import Machine


PT_INTERP = 3  # elf(5)
PATH = "tmp/.copies.tar"


class Copy(NamedTuple):
    """A path of the host and its destination; a guest's path that ends with "/" is a directory to copy into."""

    host: Path
    guest: str

    @classmethod
    def parse(cls, text: str) -> Copy:
        """Read HOST:GUEST; raise `ValueError`."""
        host, colon, guest = text.rpartition(":")
        if not colon or not host or not guest.startswith("/"):
            raise ValueError(f"{text!r} is not HOST:GUEST, GUEST beginning with /")
        return cls(Path(host).expanduser(), guest + Path(host).name if guest.endswith("/") else guest)

    def into(self, machine: Machine, progress: Callable[[str], object]) -> None:
        """Copy it with its modes; raise the host's or the guest's `OSError`."""
        where = self.guest.strip("/")
        parent = where.rpartition("/")[0]
        if parent:
            machine.run(["mkdir", "-p", f"/{parent}"], check=True)
        if self.host.is_dir():
            machine.put(PATH, self._packed(where), 0o600)
            machine.run(["tar", "-x", "-C", "/", "-f", f"/{PATH}"], check=True)
            machine.files.unlink(PATH)
            return
        data = self.host.read_bytes()
        loader = interpreter(data)
        if loader and not machine.files.exists(loader.lstrip("/")):
            progress(f"{self.host} needs {loader}, which the guest lacks: link it statically, or add the package libc6")
        # the destination may be a link to busybox, and writing through it would replace all of busybox
        with contextlib.suppress(FileNotFoundError):
            machine.files.unlink(where)
        machine.put(where, data, self.host.stat().st_mode & 0o777)

    def _packed(self, where: str) -> bytes:
        def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            return member

        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
            archive.add(self.host, where, filter=anonymous)
        return packed.getvalue()


def interpreter(program: bytes) -> str:
    """Return the loader that a dynamically linked x86-64 program names; "" for any other file."""
    if not program.startswith(ELF) or program[4:6] != b"\2\1" or len(program) < 64:
        return ""
    (table,) = struct.unpack_from("<Q", program, 32)
    size, count = struct.unpack_from("<HH", program, 54)
    for number in range(count):
        at = table + number * size
        if at + 56 > len(program):
            return ""
        (kind,) = struct.unpack_from("<I", program, at)
        (offset,) = struct.unpack_from("<Q", program, at + 8)
        (length,) = struct.unpack_from("<Q", program, at + 32)
        if kind == PT_INTERP:
            return program[offset : offset + length].rstrip(b"\0").decode("utf-8", "replace")
    return ""
