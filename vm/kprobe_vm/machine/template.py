"""The saved memory of a booted guest, from which others are cloned instead of booted.

A template is one file, mapped copy-on-write by each clone: the guest's memory (as long as the guest's memory is, with
holes where that is empty), the state of its devices, and a trailer that says what it is.  It is written without a name
and gets one when it is complete, so nobody sees half of one, and nothing of it is left by whoever is killed meanwhile.

Where QEMU can't leave the memory out of the state (method MEMORY), all of it is in the state (method STATE), which
makes clones slower; where that fails as well there are no templates (method NONE).
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import struct
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kprobe_vm.agent.frames import PROTOCOL, Hello
from kprobe_vm.errors import DiskFull, TemplateStale
from kprobe_vm.host.cache import Cache, digest
from kprobe_vm.machine.boot import Saved
from kprobe_vm.machine.qemu import Descriptors, Hardware, Ram, arguments

MEMORY, STATE, NONE = "memory", "state", "none"
KEPT = 12  # templates in the cache; the least recently used goes first
SPARE = 32 << 20  # bytes that must stay free on the disk
_TRAILER = struct.Struct("<I12s")  # length of the JSON text before it, then:
_MAGIC = b"kpvm-templ1\n"
_STEP = 1 << 22


class Contents(NamedTuple):
    """What is saved."""

    ram: int | None  # descriptor of the file with the memory; None if that is in the state
    state: bytes
    hello: Hello
    seconds: float  # seconds that the boot took


def template_key(program: str, version: str, hardware: Hardware, kernel: str) -> str:
    """Return the key of a template: a hash of everything that determines the guest.

    That is QEMU (version and the very binary), its arguments with the kernel's command line, memory and processors, the
    contents of the kernel (`kernel` is its hash) and of the root image (whose name is its hash; the agent is in there).
    """
    binary = os.stat(program)
    words = arguments(hardware, Descriptors(0, 0, 0, 0), ram=Ram())
    identity = [program, version, binary.st_size, binary.st_mtime_ns, kernel, PROTOCOL, words]
    return digest(json.dumps(identity).encode())[:32]


class Template:
    """The template of one kind of guest in the cache, whether it exists or not."""

    def __init__(self, cache: Cache, key: str) -> None:
        self._cache = cache
        self.key = key
        self.path = cache.directory("templates") / f"{key}.template"
        self._note = self.path.with_suffix(".json")

    @property
    def method(self) -> str:
        """The way to save it: MEMORY unless that was found not to work."""
        return str(self._read_note().get("method", MEMORY))

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the right to make it; others wait for it."""
        with self._cache.lock(f"template-{self.key}"):
            yield

    @contextlib.contextmanager
    def opened(self) -> Iterator[Saved | None]:
        """Give what a clone starts from, None if there is no template; raise `TemplateStale` if it can't be used.

        What is given can be used until the context ends.
        """
        with contextlib.ExitStack() as stack:
            try:
                file = stack.enter_context(open(self.path, "r+b", buffering=0))
            except FileNotFoundError:
                yield None
                return
            self._cache.check(self.path)
            facts = self._facts(file.fileno())
            size, start, length, checksum = (int(facts[name]) for name in ("ram", "start", "length", "checksum"))
            state = stack.enter_context(open(self.path, "rb", buffering=0))
            if os.fstat(state.fileno()).st_ino != os.fstat(file.fileno()).st_ino:
                raise self._stale("it was replaced just now")
            if zlib.crc32(os.pread(state.fileno(), length, start)) != checksum:
                raise self._stale("the state of its devices is damaged")
            os.lseek(state.fileno(), start, os.SEEK_SET)
            # the time of use decides what is evicted; the time of change must stay
            os.utime(file.fileno(), ns=(time.time_ns(), os.fstat(file.fileno()).st_mtime_ns))
            yield Saved(Ram(file.fileno() if size else None), state.fileno(), Hello(*facts["hello"]))

    def save(self, contents: Contents) -> None:
        """Write it, replacing an older one; the caller holds the `turn`.  Raise `DiskFull`, or another `OSError`."""
        self._sweep()
        try:
            needed = len(contents.state) + SPARE
            if contents.ram is not None:
                needed += os.fstat(contents.ram).st_blocks * 512
            disk = os.statvfs(self.path.parent)
            if disk.f_bavail * disk.f_frsize < needed:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path.parent))
            self._write(contents)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise DiskFull(f"no room for a template in {self.path.parent}: {needed >> 20} MiB are needed") from error
        self._evict()

    def drop(self) -> None:
        """Remove it."""
        self.path.unlink(missing_ok=True)

    def proven(self) -> None:
        """Note that a clone of it came up."""
        note = self._read_note()
        if not note.get("proven"):
            self._write_note({**note, "proven": True})

    def failed(self) -> None:
        """Note that a clone of it did not come up: drop the template, and the method too if no clone ever did."""
        note = self._read_note()
        if not note.get("proven"):
            self._write_note({"method": STATE if note.get("method", MEMORY) == MEMORY else NONE})
        self.drop()

    # ---- internals ----

    def _stale(self, why: str) -> TemplateStale:
        return TemplateStale(f"the template {self.path} can't be used: {why}")

    def _facts(self, file: int) -> dict[str, Any]:
        status = os.fstat(file)
        trailer = os.pread(file, _TRAILER.size, max(0, status.st_size - _TRAILER.size))
        if len(trailer) < _TRAILER.size or trailer[4:] != _MAGIC:
            raise self._stale("it has no end")
        length, _ = _TRAILER.unpack(trailer)
        try:
            facts = json.loads(os.pread(file, length, status.st_size - _TRAILER.size - length))
            if facts["key"] != self.key:
                raise self._stale("it is another's")
            if status.st_mtime_ns != int(facts["modified"]) * 10**9:
                raise self._stale("it was changed after it had been saved")
            if int(facts["start"]) + int(facts["length"]) + length + _TRAILER.size != status.st_size:
                raise self._stale("it has another length than when it was saved")
        except (ValueError, KeyError, TypeError, OSError, OverflowError, RecursionError) as error:
            raise self._stale(f"its trailer is damaged: {error}") from error
        return dict(facts)

    def _write(self, contents: Contents) -> None:
        with self._new_file() as (file, name):
            size = os.fstat(contents.ram).st_size if contents.ram is not None else 0
            os.ftruncate(file, size)
            if contents.ram is not None:
                _copy_without_holes(contents.ram, file)
            facts = {
                "key": self.key,
                "ram": size,
                "start": size,
                "length": len(contents.state),
                "checksum": zlib.crc32(contents.state),
                "hello": list(contents.hello),
                "seconds": contents.seconds,
                "modified": (modified := int(time.time())),
            }
            text = json.dumps(facts).encode()
            os.lseek(file, size, os.SEEK_SET)
            unwritten = memoryview(contents.state + text + _TRAILER.pack(len(text), _MAGIC))
            while unwritten:
                unwritten = unwritten[os.write(file, unwritten) :]
            os.utime(file, ns=(time.time_ns(), modified * 10**9))
            self.drop()
            os.link(name, self.path, src_dir_fd=file)  # any: with one, Python calls linkat, which follows /proc's link

    @contextlib.contextmanager
    def _new_file(self) -> Iterator[tuple[int, str]]:
        """Yield a descriptor and the path to link: of a file without a name, if the file system has such files."""
        directory = self.path.parent
        try:
            file = os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
            name, temporary = f"/proc/self/fd/{file}", ""
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT):
                raise
            file, name = tempfile.mkstemp(prefix=f".new-{self.key}-", dir=directory)
            temporary = name
        try:
            yield file, name
        finally:
            os.close(file)
            if temporary:
                os.unlink(temporary)

    def _sweep(self) -> None:
        """Remove what a killed process left behind: the holder of the lock knows that nobody uses it."""
        for left in self.path.parent.glob(f".new-{self.key}-*"):
            left.unlink(missing_ok=True)

    def _evict(self) -> None:
        def used(path: Path) -> float:
            try:
                return path.stat().st_atime
            except FileNotFoundError:
                return 0.0

        old = sorted(self.path.parent.glob("*.template"), key=used)[:-KEPT]
        for path in old:
            path.unlink(missing_ok=True)
            path.with_suffix(".json").unlink(missing_ok=True)

    def _read_note(self) -> dict[str, object]:
        return dict(self._cache.note(self._note) or {})

    def _write_note(self, note: dict[str, object]) -> None:
        with contextlib.suppress(DiskFull, OSError):  # then it will be found out anew
            self._cache.write_note(self._note, note)


def _copy_without_holes(source: int, target: int) -> None:
    at = 0
    while True:
        try:
            at = os.lseek(source, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                return
            raise
        end = os.lseek(source, at, os.SEEK_HOLE)
        os.lseek(target, at, os.SEEK_SET)
        while at < end:
            at += os.sendfile(target, source, at, min(end - at, _STEP))
