"""What a kernel's BTF says of its functions: parameters and return type."""

from __future__ import annotations

import mmap
import struct
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from kprobe_sim.symbols import SymbolTable

MAGIC = b"kprobtyp"


class CType(NamedTuple):
    """A C type as BTF has it; `size` in bytes, 0 for void."""

    text: str  # "const char *", "struct open_how *", "umode_t"
    kind: str  # of what typedefs and qualifiers lead to: int, bool, char, ptr, struct, union, enum, array, float, void
    size: int
    signed: bool


class Parameter(NamedTuple):
    """A parameter of a function; a variable argument list ends with one whose name and type text are "..."."""

    name: str
    type: CType


class Prototype(NamedTuple):
    """A function's parameters and what it returns."""

    parameters: tuple[Parameter, ...]
    returns: CType


class PrototypeTable:
    """The recorded prototypes (`prototypes.bin`, written by `kprobe-vm record`), searched in place.

    The file has the form of symbols.bin.  `index` u16 per symbol of symbols.bin: 0 or the number of its prototype;
    `start` u32 per prototype: where its words begin; `words` u16: the return type, then name and type per parameter;
    `names` and `types`: lines, the latter `kind size signed text`.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        magic, count = struct.unpack_from("<8sI4x", view, 0)
        if magic != MAGIC:
            raise ValueError(f"{path} isn't a recorded table of prototypes")
        sections = {}
        for index in range(count):
            tag, start, length = struct.unpack_from("<8sII", view, 16 + 16 * index)
            sections[tag.rstrip(b"\0")] = view[start : start + length]
        self._index = sections[b"index"].cast("H")
        self._start = sections[b"start"].cast("I")
        self._words = sections[b"words"].cast("H")
        self._lines = sections[b"names"], sections[b"types"]

    def find(self, symbols: SymbolTable, name: str) -> Prototype | None:
        """Return the prototype of the first recorded symbol of that name that has one."""
        for position in symbols.positions(name):
            number = self._index[position]
            if number:
                words = self._words[self._start[number - 1] : self._start[number]].tolist()
                pairs = zip(words[1::2], words[2::2], strict=True)
                return Prototype(
                    tuple(Parameter(self._names[n], self._types[t]) for n, t in pairs), self._types[words[0]]
                )
        return None

    @cached_property
    def _names(self) -> list[str]:
        return bytes(self._lines[0]).decode().split("\n")

    @cached_property
    def _types(self) -> list[CType]:
        types = []
        for line in bytes(self._lines[1]).decode().split("\n"):
            kind, size, signed, text = line.split(" ", 3)
            types.append(CType(text, kind, int(size), signed == "1"))
        return types
