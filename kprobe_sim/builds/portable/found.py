"""The profiles in a directory, whatever they are called: each says of which kernel it is, and is found by that.

Nothing is unpacked here or checked: that is for who opens one.
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
_PART = struct.Struct("<BI")  # before each part of a body: the length of its name, and of what it holds
_LOOKED_AT = (1 << 16, 1 << 22)  # bytes in which the facts are looked for; those of a guest are 8,000


class Claimed(NamedTuple):
    """What a profile claims to be."""

    release: str
    version: str
    is_whole: bool  # the whole kernel was recorded; else what isn't known of it would pass for an answer


def claimed(path: Path) -> Claimed:
    """Return what a profile says of itself, a file or a directory.  Raises OSError, and ValueError if it doesn't."""
    if path.is_dir():
        facts = _facts((path / _FACTS).read_bytes())
        release, version = facts.get("release"), facts.get("version")
        if not isinstance(release, str) or not isinstance(version, str):
            raise ValueError(f"{path / _FACTS} doesn't say of which kernel it is")
    elif not path.is_file():  # a pipe would be waited for
        raise ValueError(f"{path} is no file")
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
    """Return the first part of a file's body, its facts; of a body that is damaged what stands for none."""
    for much in _LOOKED_AT:
        file.seek(len(head.text))
        start = start_of(file.read(much), much)
        if len(start) < _PART.size:
            break
        name, length = _PART.unpack_from(start)
        if _PART.size + name + length <= len(start):
            return start[_PART.size + name : _PART.size + name + length]
    return b"{}"  # who opens it is told what is wrong with it


def profiles(place: Path) -> list[tuple[str, Path]]:
    """Return the profiles in a directory, each after the release that it is of; one that doesn't say, after its name.

    Of several of one release the first counts: the one that is named for it, else the first by name.  A place may be
    a profile itself.  The list is empty where there is no such place.
    """
    if (place / _FACTS).is_file() or place.is_file():
        return [(_release(place), place)]
    try:
        paths = [place / name for name in sorted(os.listdir(place)) if name[0] != "."]
    except OSError:
        return []
    found = [(_release(path), path) for path in paths if _is_profile(path)]
    return sorted(found, key=lambda one: one[1].name.removesuffix(SUFFIX) != one[0])


def profiles_in(place: Path) -> dict[str, Path]:
    """Return the profiles in a directory by the releases that they are of; of several of one the one that counts."""
    found: dict[str, Path] = {}
    for release, path in profiles(place):
        found.setdefault(release, path)
    return found


def called(name: str, place: Path) -> Path | None:
    """Return the profile in a directory that has a name, with or without the suffix of its file; None if none has."""
    named = [path for path in (place / name, place / f"{name}{SUFFIX}") if path.exists() and _is_profile(path)]
    return named[0] if named else None


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
    """Return whether a file has a profile's head; `changed` and `size` are others when it has been written anew."""
    with path.open("rb") as file:
        return file.read(len(TITLE)) == TITLE.encode()


def _release(path: Path) -> str:
    try:
        status = (path / _FACTS if path.is_dir() else path).stat()
        return _said(path, status.st_mtime_ns, status.st_size)
    except (OSError, ValueError):
        return path.name.removesuffix(SUFFIX)


@lru_cache(maxsize=256)
def _said(path: Path, changed: int, size: int) -> str:
    """Return the release that a profile says it is of, of a file from its head alone."""
    if not path.is_file():
        return claimed(path).release
    with path.open("rb") as file:
        return read_head(file.read(HEAD_SIZE)).release
