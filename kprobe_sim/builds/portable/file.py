"""A profile as one file: made from a profile's directory, and turned back into one.

What is made of the same recording is the same file, whoever compressed the recording.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from pathlib import Path

from kprobe_sim.builds.packed import open_sections
from kprobe_sim.builds.portable import contents, envelope
from kprobe_sim.builds.portable.facts import checked
from kprobe_sim.builds.portable.sections import FORMS, SORTED, Sections, loosened, made, mapped
from kprobe_sim.named_tuple import NamedTuple

MAGIC = {"symbols.bin": b"kprobsym", "prototypes.bin": b"kprobtyp", "tracefs.bin": b"kprobtfs"}


# The body is parts, one after the other: u8 length of the name, u32 length of the data, the name, the data. The part
# `profile.json` comes first, unchanged; the others are `FILE/SECTION`, the loosened sections of the mapped files.
FACTS = "profile.json"
_HEAD = struct.Struct("<BI")
_SECTION = re.compile(r"[a-z]{1,8}")


class Body(NamedTuple):
    """The text of profile.json, and the loose sections by mapped file."""

    facts: bytes
    files: Mapping[str, Sections]


def joined(body: Body) -> bytes:
    """Return the bytes of a body."""
    parts = [_part(FACTS, body.facts)]
    for file, sections in body.files.items():
        parts += [_part(f"{file}/{name}", data) for name, data in sections.items()]
    return b"".join(parts)


def _part(name: str, data: bytes) -> bytes:
    return _HEAD.pack(len(name), len(data)) + name.encode() + data


def split(body: bytes) -> Body:
    """Return the parts of a body.  Raises ValueError for one that is cut, and for a part that no profile has."""
    facts: bytes | None = None
    files: dict[str, dict[str, bytes]] = {}
    offset = 0
    while offset < len(body):
        if len(body) - offset < _HEAD.size:
            raise ValueError("its last part isn't whole")
        name_size, size = _HEAD.unpack_from(body, offset)
        start = offset + _HEAD.size + name_size
        offset = start + size
        if offset > len(body):
            raise ValueError("its last part isn't whole")
        name, data = body[start - name_size : start].decode("latin-1"), body[start:offset]
        file, slash, section = name.partition("/")
        sections = files.setdefault(file, {}) if file in FORMS else None
        if name == FACTS and facts is None:
            facts = data
        elif slash and sections is not None and _fits(section) and section not in sections:
            sections[section] = data
        else:
            raise ValueError(f"it has a part {name[:60]!r}, which no profile has, or twice")
    if facts is None:
        raise ValueError(f"it has no {FACTS}")
    return Body(facts, files)


def _fits(section: str) -> bool:
    return _SECTION.fullmatch(section) is not None and section not in SORTED


def packed(directory: Path) -> bytes:
    """Return the profile file of a profile's directory.  Raises ValueError for a directory that isn't a sound profile.

    Raises OSError where files can't be read.
    """
    facts = (directory / FACTS).read_bytes()
    said = checked(facts)
    files = {}
    for name in FORMS:
        path = directory / name
        if path.exists():
            files[name] = loosened(name, open_sections(path, MAGIC[name]))
    contents.check(files)
    return envelope.seal(said["release"], said["version"], joined(Body(facts, files)))


class ProfileFile:
    """A profile file that was read and found to be sound.

    Raises ValueError with the reason for one that isn't: damaged, of another format, or made to do harm.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.head, body = envelope.opened(data)
        self._body = split(body)
        facts = checked(self._body.facts)
        if (facts["release"], facts["version"]) != (self.head.release, self.head.version):
            raise ValueError(f"its head says {self.head.release}, and it is of {facts['release']}")
        contents.check(self._body.files)

    def write(self, directory: Path) -> None:
        """Write the profile's files into a directory."""
        (directory / FACTS).write_bytes(self._body.facts)
        for name, sections in self._body.files.items():
            (directory / name).write_bytes(mapped(MAGIC[name], made(name, sections)))
