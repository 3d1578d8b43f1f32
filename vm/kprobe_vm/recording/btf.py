"""Reads the kernel's BTF (/sys/kernel/btf/vmlinux) whole: prototypes of functions, fields of structures.

Source: Documentation/bpf/btf.rst of the kernel.  `kprobe/kernel/btf.py` is a reader apart: it searches a running kernel
for single prototypes in milliseconds, and neither package may import the other.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kprobe_vm.recording import packed

INT, PTR, ARRAY, STRUCT, UNION, ENUM, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC = range(1, 13)
FUNC_PROTO, VAR, DATASEC, FLOAT, DECL_TAG, TYPE_TAG, ENUM64 = range(13, 20)
# bytes after the common 12: fixed, per member
TRAILING = {
    INT: (4, 0), ARRAY: (12, 0), STRUCT: (0, 12), UNION: (0, 12), ENUM: (0, 8), FUNC_PROTO: (0, 8), VAR: (4, 0),
    DATASEC: (0, 12), DECL_TAG: (4, 0), ENUM64: (0, 12),
}  # fmt: skip
TRANSPARENT = (TYPEDEF, VOLATILE, CONST, RESTRICT, TYPE_TAG)
LETTERS = {
    INT: "i", PTR: "*", ARRAY: "[", STRUCT: "s", UNION: "u", ENUM: "e", FWD: "f", TYPEDEF: "t", VOLATILE: "v",
    CONST: "c", RESTRICT: "r", FUNC_PROTO: "(", FLOAT: "n", ENUM64: "E",
}  # fmt: skip
PROTOTYPES, TYPES, STRUCTS = 256, 64, 256  # lines to a chunk


@dataclass(frozen=True, slots=True)
class Type:
    """One entry of the type section; `size` is a size in bytes or the id of another type, by `kind`."""

    kind: int
    name: str
    size: int
    flag: bool
    data: bytes
    count: int


class Btf:
    """A parsed BTF blob."""

    def __init__(self, blob: bytes) -> None:
        magic, _, _, header, type_start, type_length, text_start, text_length = struct.unpack_from("<HBBIIIII", blob)
        if magic != 0xEB9F:
            raise ValueError("not little-endian BTF")
        texts = blob[header + text_start : header + text_start + text_length]
        self.types: list[Type] = [Type(0, "void", 0, False, b"", 0)]
        at, end = header + type_start, header + type_start + type_length
        while at < end:
            name, info, size = struct.unpack_from("<III", blob, at)
            at += 12
            kind, count = info >> 24 & 0x1F, info & 0xFFFF
            fixed, each = TRAILING.get(kind, (0, 0))
            length = fixed + each * count
            text = texts[name : texts.index(b"\0", name)].decode()
            self.types.append(Type(kind, text, size, bool(info >> 31), blob[at : at + length], count))
            at += length
        self._texts = texts
        self._shown: dict[int, str] = {}

    def text_at(self, offset: int) -> str:
        """Return a string of the string section."""
        return self._texts[offset : self._texts.index(b"\0", offset)].decode()

    def functions(self) -> Iterator[tuple[str, int]]:
        """Yield (name, id of the FUNC_PROTO) of every function."""
        for entry in self.types:
            if entry.kind == FUNC:
                yield entry.name, entry.size

    def parameters(self, proto: int) -> list[tuple[str, int]]:
        """Return (name, type id) of the parameters; ("...", 0) stands for a variable argument list."""
        pairs = []
        for name, kind in struct.iter_unpack("<II", self.types[proto].data):
            pairs.append((self.text_at(name), kind) if name or kind else ("...", 0))
        return pairs

    def untagged(self, number: int) -> int:
        """Follow tags, which say nothing of a type itself."""
        while self.types[number].kind == TYPE_TAG:
            number = self.types[number].size
        return number

    def members(self, entry: Type) -> list[tuple[str, int, int, int]]:
        """Return (name, type id, offset in bits, width of a bitfield or 0) of a struct's or union's members."""
        rows = []
        for name, kind, offset in struct.iter_unpack("<III", entry.data):
            bits = offset >> 24 if entry.flag else 0
            rows.append((self.text_at(name), kind, offset & 0xFFFFFF if entry.flag else offset, bits))
        return rows

    def references(self, number: int, *, fields: bool) -> list[int]:
        """Return the types that a type is made of; with `fields`, those of a struct's members too."""
        entry = self.types[number]
        if entry.kind in (PTR, FUNC_PROTO, *TRANSPARENT):
            return [entry.size]
        if entry.kind == ARRAY:
            return [struct.unpack_from("<I", entry.data)[0]]
        if fields and entry.kind in (STRUCT, UNION):
            return [kind for _, kind, _, _ in self.members(entry)]
        return []


def prototypes(btf: Btf, symbol_names: Sequence[str], *, fields: bool) -> bytes:
    """Return the table of prototypes for the symbols of a symbol table (its form: kprobe_sim/builds/prototypes.py).

    `fields` records the members of all structs: those that a function's arguments and its result lead to, and those
    that a typecast may name.
    """
    lines: dict[tuple[int, ...], int] = {}
    names: dict[str, int] = {}
    by_function: dict[str, int] = {}
    pending: list[int] = []
    for name, proto in btf.functions():
        row = [btf.untagged(btf.types[proto].size)]
        for parameter, kind in btf.parameters(proto):
            row += [names.setdefault(parameter, len(names)), btf.untagged(kind)]
        pending += [row[0], *row[2::2]]
        by_function.setdefault(name, lines.setdefault(tuple(row), len(lines) + 1))
    structs = _structs(btf) if fields else {}
    pending += structs.values()
    reached = {0}
    while pending:
        number = btf.untagged(pending.pop())
        if number not in reached:
            reached.add(number)
            pending += btf.references(number, fields=fields)
    positions = {number: index for index, number in enumerate(sorted(reached))}
    words = list(names)
    rows = []
    for known in lines:
        pairs = zip(known[1::2], known[2::2], strict=True)
        rows.append(
            "\t".join([str(positions[known[0]]), *(f"{words[name]}:{positions[kind]}" for name, kind in pairs)])
        )
    types = [_type_line(btf, number, positions, fields=fields) for number in sorted(reached)]
    return packed.file(
        b"kprobtyp",
        {
            "index": packed.numbers([by_function.get(name, 0) for name in symbol_names]),
            "chars": array("I", [number for number in range(1 << 16) if _is_character(btf, number)]).tobytes(),
            "protos": packed.texts(_lines(rows, PROTOTYPES)),
            "types": packed.texts(_lines(types, TYPES)),
            "structs": packed.texts(
                _lines([f"{name}\t{positions[structs[name]]}" for name in sorted(structs)], STRUCTS)
            ),
        },
    )


def _structs(btf: Btf) -> dict[str, int]:
    """Return the number of each struct by name: the first of those that share a name, as the kernel finds it."""
    numbers: dict[str, int] = {}
    for number, entry in enumerate(btf.types):
        if entry.kind == STRUCT:
            numbers.setdefault(entry.name, number)
    return numbers


def _is_character(btf: Btf, number: int) -> bool:
    """Return whether a type is an unsigned int of 8 bits, by which the kernel recognises a char."""
    while number < len(btf.types) and btf.types[number].kind in TRANSPARENT:
        number = btf.types[number].size
    entry = btf.types[number] if number < len(btf.types) else btf.types[0]
    return entry.kind == INT and entry.data[0] == 8 and not entry.data[3] & 1


def _lines(lines: Sequence[str], each: int) -> list[bytes]:
    return ["\n".join(lines[at : at + each]).encode() for at in range(0, len(lines), each)]


def _type_line(btf: Btf, number: int, positions: dict[int, int], *, fields: bool) -> str:
    entry = btf.types[number]
    if not number:
        return "0"
    words: list[object] = [LETTERS[entry.kind]]
    if entry.kind in (PTR, FUNC_PROTO, VOLATILE, CONST, RESTRICT):
        words.append(positions[btf.untagged(entry.size)])
    elif entry.kind == TYPEDEF:
        words += [positions[btf.untagged(entry.size)], entry.name]
    elif entry.kind == ARRAY:
        element, _, count = struct.unpack("<III", entry.data)
        words += [positions[btf.untagged(element)], count]
    elif entry.kind == INT:
        words += [entry.size, entry.data[3] & 0xF, entry.data[0], entry.name]
    elif entry.kind in (ENUM, ENUM64):
        words += [entry.size, int(entry.flag), entry.name]
    elif entry.kind == FWD:
        words.append(entry.name)
    else:
        words += [entry.size, entry.name]
        if fields and entry.kind in (STRUCT, UNION):
            for name, kind, offset, bits in btf.members(entry):
                words.append(f"{name}:{positions[btf.untagged(kind)]}:{offset}" + (f":{bits}" if bits else ""))
    return "\t".join(map(str, words))
