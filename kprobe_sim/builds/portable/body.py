"""The inside of a profile file: profile.json unchanged, and the loosened sections of the mapped files.

The body is parts, one after the other: u8 length of the name, u32 length of the data, the name, the data.  The part
`profile.json` comes first; the others are `FILE/SECTION`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping

from kprobe_sim.builds.portable.sections import FORMS, SORTED, Sections
from kprobe_sim.named_tuple import NamedTuple

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
