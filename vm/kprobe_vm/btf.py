"""Read the kernel's BTF (/sys/kernel/btf/vmlinux): prototypes of functions, fields of structures.

The format is that of Documentation/bpf/btf.rst of the kernel.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kprobe_vm.packed import file as pack

INT, PTR, ARRAY, STRUCT, UNION, ENUM, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC = range(1, 13)
FUNC_PROTO, VAR, DATASEC, FLOAT, DECL_TAG, TYPE_TAG, ENUM64 = range(13, 20)
# bytes behind the common 12: fixed, per member
TRAILING = {
    INT: (4, 0), ARRAY: (12, 0), STRUCT: (0, 12), UNION: (0, 12), ENUM: (0, 8), FUNC_PROTO: (0, 8), VAR: (4, 0),
    DATASEC: (0, 12), DECL_TAG: (4, 0), ENUM64: (0, 12),
}  # fmt: skip
TRANSPARENT = (TYPEDEF, VOLATILE, CONST, RESTRICT, TYPE_TAG)
POINTER_SIZE = 8


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
        found = []
        for name, kind in struct.iter_unpack("<II", self.types[proto].data):
            found.append((self.text_at(name), kind) if name or kind else ("...", 0))
        return found

    def resolve(self, number: int) -> Type:
        """Follow typedefs and qualifiers."""
        entry = self.types[number]
        while entry.kind in TRANSPARENT:
            entry = self.types[entry.size]
        return entry

    def size(self, number: int) -> int:
        """Return the size of a type in bytes."""
        entry = self.resolve(number)
        if entry.kind in (INT, STRUCT, UNION, ENUM, ENUM64, FLOAT):
            return entry.size
        if entry.kind == ARRAY:
            element, _, count = struct.unpack("<III", entry.data)
            return int(count) * self.size(element)
        return POINTER_SIZE if entry.kind == PTR else 0

    def kind(self, number: int) -> tuple[str, bool]:
        """Return (kind, signed) as the profile tells them."""
        entry = self.resolve(number)
        if entry.kind == INT:
            encoding = entry.data[3] & 0xF
            if encoding & 4:
                return "bool", False
            return ("char" if encoding & 2 or (entry.size == 1 and "char" in entry.name) else "int"), bool(encoding & 1)
        names = {PTR: "ptr", ARRAY: "array", STRUCT: "struct", UNION: "union", ENUM: "enum", ENUM64: "enum",
                 FLOAT: "float", FWD: "struct"}  # fmt: skip
        return names.get(entry.kind, "void"), entry.kind in (ENUM, ENUM64) and entry.flag

    def show(self, number: int) -> str:
        """Return the text of a type, as C would have it (functions and arrays shortened)."""
        known = self._shown.get(number)
        if known is None:
            known = self._shown[number] = self._show(number)
        return known

    def _show(self, number: int) -> str:
        entry = self.types[number]
        if entry.kind == PTR:
            inner = self.show(entry.size)
            return inner + ("*" if inner.endswith("*") else " *")
        if entry.kind in (CONST, VOLATILE, RESTRICT):
            word = {CONST: "const", VOLATILE: "volatile", RESTRICT: "restrict"}[entry.kind]
            inner = self.show(entry.size)
            return f"{inner} {word}" if inner.endswith("*") else f"{word} {inner}"
        if entry.kind == TYPE_TAG:
            return self.show(entry.size)
        if entry.kind == ARRAY:
            element, _, count = struct.unpack("<III", entry.data)
            return f"{self.show(element)}[{count}]"
        if entry.kind == FUNC_PROTO:
            return "void ()" if not entry.size else f"{self.show(entry.size)} ()"
        words = {STRUCT: "struct", UNION: "union", ENUM: "enum", ENUM64: "enum", FWD: "struct"}
        return f"{words[entry.kind]} {entry.name or '(anon)'}" if entry.kind in words else entry.name


def prototypes(btf: Btf, symbol_names: Sequence[str]) -> bytes:
    """Return the table of prototypes for the symbols of a symbol table (see kprobe_sim/prototypes.py for its form)."""
    names: dict[str, int] = {}
    types: dict[str, int] = {}
    starts, words = array("I", [0]), array("H")
    numbers: dict[bytes, int] = {}
    by_function: dict[str, int] = {}

    def type_number(number: int) -> int:
        kind, signed = btf.kind(number)
        line = f"{kind} {btf.size(number)} {int(signed)} {btf.show(number)}"
        return types.setdefault(line, len(types))

    for name, proto in btf.functions():
        row = array("H", [type_number(btf.types[proto].size)])
        for parameter, kind in btf.parameters(proto):
            row.append(names.setdefault(parameter, len(names)))
            row.append(types.setdefault("void 0 0 ...", len(types)) if parameter == "..." else type_number(kind))
        key = row.tobytes()
        if key not in numbers:
            numbers[key] = len(starts)
            words.extend(row)
            starts.append(len(words))
        by_function.setdefault(name, numbers[key])
    sections = {
        "index": array("H", (by_function.get(name, 0) for name in symbol_names)).tobytes(),
        "start": starts.tobytes(),
        "words": words.tobytes(),
        "names": "\n".join(names).encode(),
        "types": "\n".join(types).encode(),
    }
    return pack(b"kprobtyp", sections)
