"""The profiles in a directory, by the releases that they claim, whatever their files are called.

Nothing is unpacked or checked here; opening a profile does that.
"""

from __future__ import annotations

import json
import os
import struct
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from kprobe_sim.builds.portable.envelope import HEAD_SIZE, TITLE, Head, read_head, start_of
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.releases import SUFFIX

_FACTS = "profile.json"
_PART = struct.Struct("<BI")  # before each part of a body: the lengths of its name and of its data
_FIRST_BYTES = (1 << 16, 1 << 22)  # of a body, in which the facts are expected; those of a guest have 8,000


class Claimed(NamedTuple):
    """What a profile claims to be."""

    release: str
    version: str
    is_complete: bool  # all of the kernel was recorded, so that what isn't in the profile isn't in the kernel


def claimed(path: Path) -> Claimed:
    """Return what a profile, a file or a directory, says of itself.  Raises OSError, ValueError."""
    if path.is_dir():
        facts = _facts((path / _FACTS).read_bytes())
        release, version = facts.get("release"), facts.get("version")
        if not isinstance(release, str) or not isinstance(version, str):
            raise ValueError(f"{path / _FACTS} doesn't name its kernel")
    elif not path.is_file():  # reading a pipe would block
        raise ValueError(f"{path} isn't a file")
    else:
        with path.open("rb") as file:
            head = read_head(file.read(HEAD_SIZE))
            facts = _facts(_first_part(file, head))
        release, version = head.release, head.version
    return Claimed(release, version, not facts.keys() & {"unrecorded", "made_up"})


def _facts(text: bytes) -> dict[str, Any]:
    try:
        facts = json.loads(text)
    except RecursionError as error:
        raise ValueError("facts within facts") from error
    return facts if isinstance(facts, dict) else {}


def _first_part(file: BinaryIO, head: Head) -> bytes:
    """Return the facts, the first part of a file's body; those of a damaged body are empty."""
    for size in _FIRST_BYTES:
        file.seek(len(head.text))
        start = start_of(file.read(size), size)
        if len(start) < _PART.size:
            break
        name, length = _PART.unpack_from(start)
        if _PART.size + name + length <= len(start):
            return start[_PART.size + name : _PART.size + name + length]
    return b"{}"  # opening the profile reports what is wrong


def profiles(directory: Path) -> list[tuple[str, Path]]:
    """Return the profiles in a directory, each after its release; one that doesn't say its release, after its name.

    If several profiles are of one release, the first counts: the one that is named for it, or else the first by name.
    The path may be that of a profile.  The list is empty if nothing has that path.
    """
    if (directory / _FACTS).is_file() or directory.is_file():
        return [(_release(directory), directory)]
    try:
        paths = [directory / name for name in sorted(os.listdir(directory)) if name[0] != "."]
    except OSError:
        return []
    by_name = [(_release(path), path) for path in paths if _is_profile(path)]
    return sorted(by_name, key=lambda profile: profile[1].name.removesuffix(SUFFIX) != profile[0])


def profiles_in(directory: Path) -> dict[str, Path]:
    """Return the profiles in a directory by release: of several of one release, the one that counts."""
    by_release: dict[str, Path] = {}
    for release, path in profiles(directory):
        by_release.setdefault(release, path)
    return by_release


def profile_named(name: str, directory: Path) -> Path | None:
    """Return the profile in a directory that has a name, with or without the suffix of its file; None if none has."""
    paths = (directory / name, directory / f"{name}{SUFFIX}")
    return next((path for path in paths if path.exists() and _is_profile(path)), None)


def _is_profile(path: Path) -> bool:
    if path.name.endswith(SUFFIX) or (path / _FACTS).is_file():
        return True
    try:
        status = path.stat()
        return path.is_file() and _starts_as_profile(path, status.st_mtime_ns, status.st_size)
    except OSError:
        return False


@lru_cache(maxsize=256)
def _starts_as_profile(path: Path, changed: int, size: int) -> bool:
    """Return whether a file has a profile's head; `changed` and `size` change when it is rewritten."""
    with path.open("rb") as file:
        return file.read(len(TITLE)) == TITLE.encode()


def _release(path: Path) -> str:
    try:
        status = (path / _FACTS if path.is_dir() else path).stat()
        return _claimed_release(path, status.st_mtime_ns, status.st_size)
    except (OSError, ValueError):
        return path.name.removesuffix(SUFFIX)


@lru_cache(maxsize=256)
def _claimed_release(path: Path, changed: int, size: int) -> str:
    """Return the release that a profile claims; only the head of a file is read."""
    if not path.is_file():
        return claimed(path).release
    with path.open("rb") as file:
        return read_head(file.read(HEAD_SIZE)).release
