"""Writes sections of a profile's binary files: sequences of numbers and texts in compressed chunks.

The form is described in kprobe_sim/builds/packed.py, which reads it.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Mapping, Sequence
from itertools import pairwise

CHUNK = 1024


def planes(values: Sequence[int]) -> bytes:
    """Return u32 values as four planes of bytes, the lowest first."""
    data = array("I", values).tobytes()
    return b"".join(data[plane::4] for plane in range(4))


def numbers(values: Sequence[int]) -> bytes:
    """Return a section of u32 values."""
    return _section(values, [values[at : at + CHUNK] for at in range(0, len(values), CHUNK)])


def ascending(values: Sequence[int]) -> bytes:
    """Return a section of u32 values that never fall."""
    chunks = []
    for at in range(0, len(values), CHUNK):
        chunk = values[at : at + CHUNK]
        chunks.append([0, *(after - before for before, after in pairwise(chunk))])
    return _section(values, chunks)


def _section(values: Sequence[int], chunks: Sequence[Sequence[int]]) -> bytes:
    packed, at = [], array("I", [0])
    for chunk in chunks:
        packed.append(zlib.compress(planes(chunk), 9))
        at.append(at[-1] + len(packed[-1]))
    heads = array("I", values[::CHUNK])
    return struct.pack("<II", len(values), len(chunks)) + at.tobytes() + heads.tobytes() + b"".join(packed)


def texts(chunks: Sequence[bytes]) -> bytes:
    """Return a section of chunks that are compressed one by one: u32 count k, u32[k+1] where each begins, chunks."""
    packed, at = [], array("I", [0])
    for chunk in chunks:
        packed.append(zlib.compress(chunk, 9))
        at.append(at[-1] + len(packed[-1]))
    return struct.pack("<I", len(chunks)) + at.tobytes() + b"".join(packed)


def named(items: Mapping[str, bytes]) -> bytes:
    """Return a section of texts by name: as `texts`, the first of them the names, one to a line."""
    return texts(["\n".join(items).encode(), *items.values()])


def file(magic: bytes, sections: dict[str, bytes]) -> bytes:
    """Return a file of sections: its directory, then each section at a multiple of 8."""
    head = struct.pack("<8sII", magic, len(sections), 0)
    at = len(head) + 16 * len(sections)
    body = bytearray()
    for tag, data in sections.items():
        head += struct.pack("<8sII", tag.encode(), at + len(body), len(data))
        body += data + b"\0" * (-len(data) % 8)
    return head + bytes(body)
