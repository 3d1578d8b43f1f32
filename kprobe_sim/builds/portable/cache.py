"""Profile files, unpacked once for all processes of a user, into $XDG_CACHE_HOME/kprobe-sim/SHA256/.

A directory of the cache is complete, as a rename makes it appear.  It may be removed whenever no process uses it.
The modules that unpack are imported when there is something to unpack.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from kprobe_sim.builds.once import once
from kprobe_sim.builds.portable.envelope import HEAD_SIZE, Head, check_size, read_head

_HEAD = "head"  # the head of the file that a directory of the cache was made of


def unpacked(path: Path, environment: Mapping[str, str]) -> Path:
    """Return the directory of a profile: the given one, or that to which the given file was unpacked.

    The second time, only its head is read.  If the cache can't be written, the directory is temporary, and
    is removed when this process ends.  Raises ValueError with the reason for a profile that is missing or damaged.
    """
    try:
        if path.is_dir():
            from kprobe_sim.builds.portable.facts import checked

            checked((path / "profile.json").read_bytes())
            return path
        head = _head(path)
        cache = _cache(environment)
        directory = None
        if cache is not None:
            directory = cache / head.sha256
            directory = directory if _is_of(directory, head) else _filled(cache, path)
        return directory or _temporary((path, head))
    except OSError as error:
        raise ValueError(f"{error.filename or path}: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def is_unpacked(path: Path, environment: Mapping[str, str]) -> Head | None:
    """Return the head of a profile file that is in the cache, None if it isn't.  Raises ValueError, OSError."""
    head, cache = _head(path), _cache(environment)
    return head if cache is not None and _is_of(cache / head.sha256, head) else None


def _head(path: Path) -> Head:
    with path.open("rb") as file:
        head = read_head(file.read(HEAD_SIZE))
        check_size(head, file.seek(0, os.SEEK_END))
    return head


def _cache(environment: Mapping[str, str]) -> Path | None:
    """Return the directory of unpacked profiles; None if others could write to it, or it can't be made."""
    named = environment.get("XDG_CACHE_HOME", "")
    home = named if os.path.isabs(named) else os.path.expanduser("~/.cache")
    cache = Path(home, "kprobe-sim")
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = cache.stat()
    except OSError:
        return None
    return cache if status.st_uid == os.geteuid() and not status.st_mode & 0o022 else None


def _is_of(directory: Path, head: Head) -> bool:
    try:
        return (directory / _HEAD).read_bytes() == head.text
    except OSError:
        return False


def _filled(cache: Path, path: Path) -> Path | None:
    """Unpack a file into the cache, unless another process does, and return its directory; None if that fails."""
    import shutil
    import tempfile

    from kprobe_sim.builds.portable.file import ProfileFile

    profile = ProfileFile(path.read_bytes())
    directory = cache / profile.head.sha256
    try:
        with tempfile.TemporaryDirectory(prefix=".new-", dir=cache) as made:
            fresh = Path(made, "profile")
            fresh.mkdir()
            profile.write(fresh)
            (fresh / _HEAD).write_bytes(profile.head.text)
            for file in fresh.iterdir():
                _to_disk(file)
            try:
                fresh.rename(directory)
            except OSError:
                if not _is_of(directory, profile.head):  # it is incomplete
                    shutil.rmtree(directory)
                    fresh.rename(directory)
    except OSError:
        return None
    return directory


def _to_disk(path: Path) -> None:
    """Write a file's data to the disk: a crash must not leave it empty in a directory that counts as complete."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@once
def _temporary(made_of: tuple[Path, Head]) -> Path:
    """Unpack a file into a directory that is removed when this process ends."""
    import atexit
    import tempfile

    from kprobe_sim.builds.portable.file import ProfileFile

    profile = ProfileFile(made_of[0].read_bytes())
    made = Path(tempfile.mkdtemp(prefix="kprobe-sim-"))
    atexit.register(_remove, made, os.getpid())
    profile.write(made)
    return made


def _remove(made: Path, process: int) -> None:
    import shutil

    if os.getpid() == process:  # not in a fork
        shutil.rmtree(made, ignore_errors=True)
