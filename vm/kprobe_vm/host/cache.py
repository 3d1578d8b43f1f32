"""The directory where fetched packages, kernels and guest roots are kept between runs.

Everything in it is named by the hash of what it was made from, and appears by a rename, so no reader sees half a file.
Whoever makes something holds a lock, so two processes don't fetch the same kernel twice.  Damage is found when a file
is used (seal.py), and the file is made again.  A directory that is somebody else's, or that others can write to, is
refused: what lies there is run, on the host and in guests.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import pwd
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kprobe_vm.errors import CacheUnsafe, DiskFull, NotReady
from kprobe_vm.host import seal
from kprobe_vm.host.scratch import scratch


def digest(*parts: bytes) -> str:
    """Return a hash of the parts and of where each ends."""
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(len(part).to_bytes(8, "little") + part)
    return hashed.hexdigest()


@contextlib.contextmanager
def _room(path: Path) -> Iterator[None]:
    """Raise `DiskFull` for either of the errors of a full file system."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"no room in {path}: {os.strerror(error.errno)}") from error
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
        """Return a directory in the cache, made if need be, for its user alone.

        Raise `CacheUnsafe`, `DiskFull`, or `NotReady` if there can't be one.
        """
        path = self.root / name
        try:
            with _room(self.root):
                self.root.parent.mkdir(parents=True, exist_ok=True)
                for place in _way(self.root, path):
                    if not place.is_dir():
                        with contextlib.suppress(FileExistsError):
                            place.mkdir(mode=0o700)
                os.listdir(path)
        except OSError as error:
            raise NotReady(f"the cache {path} can't be made: {error.strerror}; {OTHER}") from error
        self.check(path)
        return path

    def check(self, path: Path | None = None) -> None:
        """Raise `CacheUnsafe` if the cache, or something in it, is another's, or a directory open to others.

        Raise `NotReady` if it can't be looked at, as in another user's home.
        """
        for directory in _way(self.root, path or self.root):
            try:
                _check(directory, os.lstat(directory))
                _check(directory, os.stat(directory))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise NotReady(f"the cache {directory} can't be looked at: {error.strerror}; {OTHER}") from error

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Hold the lock of that name against other processes and threads; the kernel drops it if we die."""
        file = self.directory("locks") / name
        with _room(self.root):
            handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def file(self, kind: str, name: str, make: Callable[[], bytes], *, mode: int = 0o644) -> Path:
        """Return the cached file; if there is none, or it is damaged, write what `make` returns."""
        path = self.directory(kind) / name
        if self._is_sound(path):
            return path
        with self.lock(f"{kind}-{name}"[:200]):
            if not self._is_sound(path):
                self.replace(path, make(), mode=mode)
                self.replace(_seal(path), seal.content([path]))
        return path

    def tree(
        self, kind: str, name: str, fill: Callable[[Path], None], is_whole: Callable[[Path], bool] = Path.exists
    ) -> Path:
        """Return the cached directory if it is complete, or a new one that `fill` has filled."""
        path = self.directory(kind) / name
        self.check(path)
        if is_whole(path):
            return path
        with self.lock(f"{kind}-{name}"[:200]):
            if not is_whole(path):
                with _room(self.root), scratch(path.parent) as place:
                    fresh = place / "tree"
                    fresh.mkdir(mode=0o700)
                    fill(fresh)
                    if path.exists():
                        path.rename(place / "damaged")
                    fresh.rename(path)
        return path

    def note(self, path: Path) -> Any:
        """Return what `write_note` has written there; None if there is nothing, or it is damaged."""
        self.check(path)
        try:
            text = path.read_bytes()
            known = json.loads(text)
            return known["note"] if known["sha256"] == _sum(known["note"]) else None
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None

    def write_note(self, path: Path, note: object) -> None:
        """Write a JSON value with its hash."""
        self.replace(path, json.dumps({"note": note, "sha256": _sum(note)}).encode())

    def replace(self, path: Path, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file so that others see the old content or the new one."""
        with _room(self.root), scratch(path.parent) as place:
            fresh = place / "file"
            with open(fresh, "xb") as out:
                out.write(data)
            fresh.chmod(mode)
            fresh.replace(path)

    def drop_damaged(self) -> list[str]:
        """Read everything that is sealed, remove what is damaged, and return its names."""
        damaged = []
        for one in sorted(self.root.glob(f"[!.]*/[!.]*{seal.SUFFIX}")):
            if not seal.holds(one, thoroughly=True):
                path = one.with_name(one.name.removesuffix(seal.SUFFIX))
                path.unlink(missing_ok=True)
                one.unlink(missing_ok=True)
                damaged.append(f"{path.parent.name}/{path.name}")
        return damaged

    def _is_sound(self, path: Path) -> bool:
        own = _seal(path)
        for file in (path, own):
            self.check(file)
        return path.is_file() and seal.holds(own, renew=lambda fresh: self.replace(own, fresh))


OTHER = "set KPROBE_VM_CACHE to a directory of your own"


def _seal(path: Path) -> Path:
    return path.with_name(path.name + seal.SUFFIX)


def _sum(note: object) -> str:
    return hashlib.sha256(json.dumps(note).encode()).hexdigest()


def _way(root: Path, path: Path) -> list[Path]:
    """Return the root, the directories between it and the path, and the path."""
    inner = path.relative_to(root).parts
    return [root.joinpath(*inner[:count]) for count in range(len(inner) + 1)]


def _check(path: Path, status: os.stat_result) -> None:
    own = os.geteuid()
    if status.st_uid != own:
        whose, mine = _user(status.st_uid), _user(own)
        raise CacheUnsafe(
            f"the cache directory {path} belongs to {whose}, not to {mine}, who would run what {whose} puts there: "
            f"{OTHER}, or give it to {mine}: chown -R {mine} {path}"
        )
    if not stat.S_ISDIR(status.st_mode) or not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return
    if status.st_mode & stat.S_ISVTX:
        return  # like /tmp: others can't touch our files there, and files of theirs are detected when they are used
    mode = f"{stat.S_IMODE(status.st_mode):04o}"
    raise CacheUnsafe(
        f"the cache directory {path} can be written to by others (mode {mode}), and what they put there would be run: "
        f"{OTHER}, or delete it, or if you trust what it holds: chmod go-w {path}"
    )


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
