"""Sections of mapped files as a profile file stores them: loosened, so that they compress better; and the way back.

What follows from the rest isn't in the file: where chunks begin, and the order of the symbols by name.  No offset
of a mapped file comes from a profile file, so none can point outside.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise

from kprobe_sim.builds.packed import CHUNK, Ascending, Numbers, Texts
from kprobe_sim.builds.recorded import BLOCK
from kprobe_sim.named_tuple import NamedTuple

_LEVEL = 9  # as the recorder: what is unpacked are the files that were packed
_MOST = 1 << 32
Sections = Mapping[str, bytes]


class Form(NamedTuple):
    """How sections of a kind are loosened, and made again."""

    loosened: Callable[[memoryview], bytes]
    made: Callable[[bytes], bytes]


# ------------------------------------------------------------------------------------------------------- of any section


def numbers_of(loose: bytes) -> array[int]:
    """Return the numbers of a loose section.  Raises ValueError for part of a number at the end."""
    size, odd = divmod(len(loose), 4)
    if odd:
        raise ValueError("a list of numbers ends within one")
    mixed = bytearray(len(loose))
    for plane in range(4):
        mixed[plane::4] = loose[plane * size : (plane + 1) * size]
    return array("I", bytes(mixed))


def ascending_of(loose: bytes) -> array[int]:
    """Return the numbers of a loose section that never fall.  Raises ValueError where they grow too large."""
    steps = numbers_of(loose)
    if sum(steps) >= _MOST:
        raise ValueError("a list of numbers grows beyond 32 bits")
    return array("I", accumulate(steps))


def texts_of(loose: bytes) -> list[bytes]:
    """Return the chunks of a loose section.  Raises ValueError where they aren't as long as it says."""
    if len(loose) < 4 or len(loose) < 4 + 4 * (count := struct.unpack_from("<I", loose)[0]):
        raise ValueError("a list of texts ends before their lengths")
    ends = list(accumulate(struct.unpack_from(f"<{count}I", loose, 4), initial=4 + 4 * count))
    if ends[-1] != len(loose):
        raise ValueError("texts aren't as long as their lengths say")
    return [loose[start:end] for start, end in pairwise(ends)]


def _planes(values: Sequence[int]) -> bytes:
    data = array("I", values).tobytes()
    return b"".join([data[plane::4] for plane in range(4)])


def _steps(values: Sequence[int]) -> bytes:
    return _planes([after - before for before, after in pairwise([0, *values])])


def _loose_texts(chunks: Sequence[bytes]) -> bytes:
    return struct.pack(f"<{len(chunks) + 1}I", len(chunks), *map(len, chunks)) + b"".join(chunks)


def _packed_numbers(values: array[int], *, falls: bool = True) -> bytes:
    chunks = [values[at : at + CHUNK] for at in range(0, len(values), CHUNK)]
    heads = b"".join([chunk[:1].tobytes() for chunk in chunks])
    if not falls:
        chunks = [array("I", [0, *(after - before for before, after in pairwise(chunk))]) for chunk in chunks]
    at, packed = _packed([_planes(chunk) for chunk in chunks])
    return struct.pack("<II", len(values), len(chunks)) + at + heads + packed


def _packed_texts(chunks: Sequence[bytes]) -> bytes:
    at, packed = _packed(chunks)
    return struct.pack("<I", len(chunks)) + at + packed


def _packed(chunks: Iterable[bytes]) -> tuple[bytes, bytes]:
    """Return where each chunk begins and the last ends, and the chunks."""
    packed = [zlib.compress(chunk, _LEVEL) for chunk in chunks]
    return array("I", accumulate(map(len, packed), initial=0)).tobytes(), b"".join(packed)


BYTES = Form(bytes, bytes)
NUMBERS = Form(lambda section: _planes(list(Numbers(section))), lambda loose: _packed_numbers(numbers_of(loose)))
ASCENDING = Form(
    lambda section: _steps(list(Ascending(section))), lambda loose: _packed_numbers(ascending_of(loose), falls=False)
)
TEXTS = Form(
    lambda section: _loose_texts([texts[number] for texts in [Texts(section)] for number in range(len(texts))]),
    lambda loose: _packed_texts(texts_of(loose)),
)

FORMS: Mapping[str, Mapping[str, Form]] = {  # of the sections of each mapped file; all others are bytes
    "symbols.bin": {
        **dict.fromkeys(("address", "special", "ftrace", "endbr"), ASCENDING),
        "speckind": NUMBERS,
        "kinds": TEXTS,
        "bits": TEXTS,
    },
    "prototypes.bin": {"index": NUMBERS, **dict.fromkeys(("protos", "types", "structs"), TEXTS)},
    "tracefs.bin": dict.fromkeys(("files", "tree", "kinds", "events", "formats"), TEXTS),
}
# The names of symbols are kept by address, "by": the sections that are made of them.
SORTED = ("order", "rank", "heads", "names")


def loosened(file: str, sections: Mapping[str, memoryview]) -> dict[str, bytes]:
    """Return the loose sections of a mapped file, in its order."""
    forms = FORMS[file]
    loose: dict[str, bytes] = {}
    for name, section in sections.items():
        if file != "symbols.bin" or name not in SORTED:
            loose[name] = forms.get(name, BYTES).loosened(section)
        elif name == "names":
            blocks = Texts(section)
            names = b"\n".join([blocks[number] for number in range(len(blocks))]).split(b"\n")
            loose["by"] = b"\n".join([names[rank] for rank in Numbers(sections["rank"])])
    return loose


def made(file: str, loose: Sections) -> dict[str, bytes]:
    """Return the sections of a mapped file.  Raises ValueError for unusable loose ones."""
    forms = FORMS[file]
    sections: dict[str, bytes] = {}
    for name, data in loose.items():
        if file == "symbols.bin" and name == "by":
            sections |= _sorted(data.split(b"\n"))
        else:
            sections[name] = forms.get(name, BYTES).made(data)
    return sections


def _sorted(names: Sequence[bytes]) -> dict[str, bytes]:
    order = sorted(range(len(names)), key=names.__getitem__)
    rank = array("I", bytes(4 * len(order)))
    for number, position in enumerate(order):
        rank[position] = number
    blocks = [[names[position] for position in order[start : start + BLOCK]] for start in range(0, len(order), BLOCK)]
    return {
        "order": _packed_numbers(array("I", order)),
        "rank": _packed_numbers(rank),
        "heads": b"\n".join([block[0] for block in blocks]),
        "names": _packed_texts([b"\n".join(block) for block in blocks]),
    }


def mapped(magic: bytes, sections: Sections) -> bytes:
    """Return a mapped file: its directory, then each section at a multiple of 8."""
    head = struct.pack("<8sII", magic, len(sections), 0)
    start = len(head) + 16 * len(sections)
    body = bytearray()
    for name, data in sections.items():
        head += struct.pack("<8sII", name.encode(), start + len(body), len(data))
        body += data + b"\0" * (-len(data) % 8)
    return head + bytes(body)
