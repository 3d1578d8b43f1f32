"""The directory where fetched packages, kernels and guest roots are kept between runs.

Everything in it is named by the hash of what it was made from, and comes into being by a rename, so that a reader never
sees half a file.  Whoever makes something holds a lock, so that two processes don't fetch the same kernel twice.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from kprobe_vm.errors import DiskFull

__all__ = ["Cache", "digest"]


def digest(*parts: bytes) -> str:
    """Return a hash of the parts that also tells apart where one ends and the next begins."""
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(len(part).to_bytes(8, "little") + part)
    return hashed.hexdigest()


@contextlib.contextmanager
def _room(place: Path) -> Iterator[None]:
    """Make `DiskFull` of the two ways in which a file system says that it is full."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"no room in {place}: {os.strerror(error.errno)}") from error
        raise


class Cache:
    """The cache directory: `KPROBE_VM_CACHE`, else `kprobe-vm` in `XDG_CACHE_HOME` (default `~/.cache`)."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Cache:
        """Return the cache that the environment variables name."""
        if own := environment.get("KPROBE_VM_CACHE"):
            return cls(Path(own).expanduser().absolute())
        base = environment.get("XDG_CACHE_HOME") or "~/.cache"
        return cls(Path(base).expanduser().absolute() / "kprobe-vm")

    def directory(self, name: str) -> Path:
        """Return a directory in the cache, made if need be, for its user alone."""
        path = self.root / name
        with _room(self.root):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Hold the lock of that name against other processes and threads; the kernel drops it if we die."""
        with open(self.directory("locks") / name, "a") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def file(
        self, kind: str, name: str, make: Callable[[], bytes], *, mode: int = 0o644, size: int | None = None
    ) -> Path:
        """Return the cached file, or write what `make` returns if there is none, or it is empty or not of that size."""
        path = self.directory(kind) / name

        def is_whole() -> bool:
            try:
                found = path.stat().st_size
            except FileNotFoundError:
                return False
            return found == size if size is not None else found > 0

        if is_whole():
            return path
        with self.lock(f"{kind}-{name}"[:200]):
            if not is_whole():
                self.replace(path, make(), mode=mode)
        return path

    def tree(
        self, kind: str, name: str, fill: Callable[[Path], None], is_whole: Callable[[Path], bool] = Path.exists
    ) -> Path:
        """Return the cached directory if it is whole, or the new one that `fill` was given to fill."""
        path = self.directory(kind) / name
        if is_whole(path):
            return path
        with self.lock(f"{kind}-{name}"[:200]):
            if not is_whole(path):
                with _room(self.root):
                    fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=path.parent))
                    try:
                        fill(fresh)
                        if path.exists():
                            shutil.rmtree(path)
                        fresh.rename(path)
                    except BaseException:
                        shutil.rmtree(fresh, ignore_errors=True)
                        raise
        return path

    def replace(self, path: Path, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file so that others see the old content or the new one."""
        with _room(self.root):
            self._replace(path, data, mode)

    def _replace(self, path: Path, data: bytes, mode: int) -> None:
        handle, temporary = tempfile.mkstemp(prefix=".new-", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(data)
            os.chmod(temporary, mode)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
