"""playground.py imports it: prototypes without the members of structs, for kernels without parameter names.

On these kernels the page shows return types only, and members are half a megabyte of each profile.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from kprobe_sim.builds.packed import Texts, open_sections
from kprobe_sim.builds.prototypes import MAGIC, PROTOTYPES, TYPES
from kprobe_vm.recording import packed

_LEADING = "*tcvr[("  # letters of types whose first word is another type


def without_members(path: Path) -> bytes:
    """Return the bytes of a prototypes.bin with the types of functions alone, numbered anew."""
    sections = open_sections(path, MAGIC)
    types = [line.split("\t") for line in _lines(sections["types"])]
    protos = [line.split("\t") for line in _lines(sections["protos"])]
    reached = {0}
    wanted = [int(number) for proto in protos for number in (proto[0], *(word.split(":")[1] for word in proto[1:]))]
    while wanted:
        if (number := wanted.pop()) not in reached:
            reached.add(number)
            if types[number][0] in _LEADING:
                wanted.append(int(types[number][1]))
    place = {str(number): str(index) for index, number in enumerate(sorted(reached))}

    def type_line(words: list[str]) -> str:
        if words[0] in _LEADING:
            return "\t".join([words[0], place[words[1]], *words[2:]])
        return "\t".join(words[:3] if words[0] in "su" else words)

    def proto_line(words: list[str]) -> str:
        pairs = (word.split(":") for word in words[1:])
        return "\t".join([place[words[0]], *(f"{name}:{place[kind]}" for name, kind in pairs)])

    return packed.file(
        MAGIC,
        {
            "index": bytes(sections["index"]),
            "chars": bytes(sections["chars"]),
            "protos": packed.texts(_chunks([proto_line(words) for words in protos], PROTOTYPES)),
            "types": packed.texts(_chunks([type_line(types[number]) for number in sorted(reached)], TYPES)),
        },
    )


def _lines(section: memoryview) -> list[str]:
    texts = Texts(section)
    return list(chain.from_iterable(texts[chunk].decode().split("\n") for chunk in range(len(texts))))


def _chunks(lines: list[str], each: int) -> list[bytes]:
    return ["\n".join(lines[at : at + each]).encode() for at in range(0, len(lines), each)]
