"""The kernel's BTF (/sys/kernel/btf/vmlinux) -> prototypes of functions; only the necessary parts are read.

Source: Documentation/bpf/btf.rst of the kernel.
"""

from __future__ import annotations

from struct import Struct

from kprobe.kernel.prototype import VARIABLE, CType, Parameter, Prototype

MAGIC = 0xEB9F
HEADER = Struct("<HBBIIIII")  # magic, version, flags, header's size, types' offset and size, strings' offset and size
TYPE = Struct("<III")  # name, kind and number of members, size or type
PAIR = Struct("<II")
INT, PTR, ARRAY, STRUCT, UNION, ENUM, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, FUNC_PROTO = range(1, 14)
VAR, DATASEC, FLOAT, DECL_TAG, TYPE_TAG, ENUM64 = range(14, 20)
FIXED = {INT: 4, ARRAY: 12, VAR: 4, DECL_TAG: 4}  # bytes after those of TYPE
MEMBER = {STRUCT: 12, UNION: 12, ENUM: 8, FUNC_PROTO: 8, DATASEC: 12, ENUM64: 12}  # and of each member
QUALIFIER = {CONST: "const", VOLATILE: "volatile", RESTRICT: "restrict"}
KEYWORD = {STRUCT: "struct", UNION: "union", ENUM: "enum", ENUM64: "enum"}
KIND = {PTR: "ptr", ARRAY: "array", STRUCT: "struct", UNION: "union", ENUM: "enum", ENUM64: "enum", FLOAT: "float"}
SIGNED, CHAR, BOOL = 1, 2, 4  # the encoding of an int
DEPTH = 64  # nested types: more is damage


class Btf:
    """The BTF of a kernel.  Raise `ValueError` if the data isn't BTF, or is damaged."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = [0]  # where each type begins; 0 is void
        self._functions: dict[str, int] = {}
        try:
            self._index()
        except (IndexError, ValueError) as error:
            raise ValueError(f"damaged BTF: {error}") from error
        except Exception as error:  # struct.error, which has no name without importing struct again
            raise ValueError(f"BTF ends too early: {error}") from error

    def _index(self) -> None:
        magic, _, _, header, start, length, texts, _ = HEADER.unpack_from(self._data)
        if magic != MAGIC:
            raise ValueError(f"it begins with {magic:#x}, not {MAGIC:#x}")
        self._texts = header + texts
        at, end = header + start, header + start + length
        unpack, fixed, member = TYPE.unpack_from, FIXED.get, MEMBER.get
        while at < end:
            name, info, kind_of = unpack(self._data, at)
            self._at.append(at)
            kind = info >> 24 & 0x1F
            if not 0 < kind <= ENUM64:
                raise ValueError(f"a type of the unknown kind {kind} at byte {at}")
            if kind == FUNC:
                self._functions.setdefault(self._text(name), kind_of)
            at += TYPE.size + fixed(kind, 0) + member(kind, 0) * (info & 0xFFFF)

    def prototype(self, name: str) -> Prototype | None:
        """Return the prototype of a function, None if unknown."""
        number = self._functions.get(name)
        if number is None:
            return None
        _, count, returns = self._entry(number)
        start = self._at[number] + TYPE.size
        parameters = []
        for place in range(count):
            text, kind = PAIR.unpack_from(self._data, start + place * PAIR.size)
            if not text and not kind:
                parameters.append(Parameter(VARIABLE, CType(VARIABLE, "void", 0, False)))
            else:
                parameters.append(Parameter(self._text(text), self._type(kind)))
        return Prototype(tuple(parameters), self._type(returns))

    def follow(self, name: str, at: int, path: str) -> tuple[tuple[int, ...], CType] | None:
        """Return the way from a function's pointer parameter to a member, and its type; None if unknown.

        `path` names members, and members of what those are or point to: a.b.c.  The way is offsets in bytes, one from
        each pointer on; bit fields have none.
        """
        proto = self._functions.get(name)
        if proto is None or at >= self._entry(proto)[1]:
            return None
        number = self._bare(PAIR.unpack_from(self._data, self._at[proto] + TYPE.size + at * PAIR.size)[1])
        places: list[int] = []
        for word in path.split("."):
            kind, _, other = self._entry(number) if number else (0, 0, 0)
            if kind == PTR:
                number = self._bare(other)
                places.append(0)
            if not places or (found := self._member(number, word, DEPTH)) is None:
                return None
            number, place = found
            places[-1] += place
        return tuple(places), self._type(number)

    def _bare(self, number: int) -> int:
        """Follow typedefs, qualifiers and tags."""
        for _ in range(DEPTH):
            kind, _, other = self._entry(number) if number else (0, 0, 0)
            if kind not in QUALIFIER and kind not in (TYPEDEF, TYPE_TAG):
                return number
            number = other
        raise ValueError("damaged BTF: types that lead to each other")

    def _member(self, number: int, name: str, depth: int) -> tuple[int, int] | None:
        """Return type and offset of a member of a struct or union, also if it is in an anonymous one inside."""
        kind, count, _ = self._entry(number) if number else (0, 0, 0)
        if kind not in (STRUCT, UNION) or not depth:
            return None
        at = self._at[number]
        has_bits = TYPE.unpack_from(self._data, at)[1] >> 31
        for place in range(at + TYPE.size, at + TYPE.size + count * TYPE.size, TYPE.size):
            text, inner, bits = TYPE.unpack_from(self._data, place)
            if has_bits:
                if bits >> 24 and self._text(text) == name:
                    return None
                bits &= 0xFFFFFF
            if text and self._text(text) == name:
                return None if bits % 8 else (self._bare(inner), bits // 8)
            if not text and (found := self._member(self._bare(inner), name, depth - 1)) is not None:
                return found[0], bits // 8 + found[1]
        return None

    def _entry(self, number: int) -> tuple[int, int, int]:
        """Return kind, number of members, and size or type."""
        _, info, other = TYPE.unpack_from(self._data, self._at[number])
        return info >> 24 & 0x1F, info & 0xFFFF, other

    def _type(self, number: int) -> CType:
        text = self._spelled(number, DEPTH)
        number = self._bare(number)
        if not number:
            return CType(text, "void", 0, False)
        kind, _, other = self._entry(number)
        if kind == INT:
            encoding = self._data[self._at[number] + TYPE.size + 3] & 0xF
            is_char = encoding & CHAR or (other == 1 and "char" in self._name(number))
            name = "char" if is_char else "bool" if encoding & BOOL else "int"
            return CType(text, name, other, bool(encoding & SIGNED))
        size = 8 if kind == PTR else self._array(number) if kind == ARRAY else other
        signed = kind in (ENUM, ENUM64) and bool(TYPE.unpack_from(self._data, self._at[number])[1] >> 31)
        return CType(text, KIND.get(kind, "struct"), size, signed)

    def _array(self, number: int) -> int:
        element, _, count = TYPE.unpack_from(self._data, self._at[number] + TYPE.size)
        return int(count) * self._type(element).size

    def _spelled(self, number: int, depth: int) -> str:
        if not number:
            return "void"
        if not depth:
            raise ValueError("damaged BTF: types that lead to each other")
        kind, _, other = self._entry(number)
        if kind == PTR:
            return self._pointer(other, depth)
        if kind in QUALIFIER:
            inner = self._spelled(other, depth - 1)
            return f"{inner} {QUALIFIER[kind]}" if inner.endswith("*") else f"{QUALIFIER[kind]} {inner}"
        if kind == TYPE_TAG:
            return self._spelled(other, depth - 1)
        if kind == ARRAY:
            element, _, count = TYPE.unpack_from(self._data, self._at[number] + TYPE.size)
            return f"{self._spelled(element, depth - 1)}[{count}]"
        if kind == FWD:
            union = TYPE.unpack_from(self._data, self._at[number])[1] >> 31
            return f"{'union' if union else 'struct'} {self._name(number)}"
        if kind in KEYWORD:
            return f"{KEYWORD[kind]} {self._name(number) or '(anon)'}"
        return self._name(number)

    def _pointer(self, number: int, depth: int) -> str:
        """Return a pointer to a type; its tags (__user) come before the star."""
        tag = ""
        while number and self._entry(number)[0] == TYPE_TAG:
            tag += f" __{self._name(number)}"
            number = self._entry(number)[2]
        if number and self._entry(number)[0] == FUNC_PROTO:
            return f"{self._spelled(self._entry(number)[2], depth - 1)} (*)()"
        inner = self._spelled(number, depth - 1) + tag
        return inner + ("*" if inner.endswith("*") else " *")

    def _name(self, number: int) -> str:
        return self._text(TYPE.unpack_from(self._data, self._at[number])[0])

    def _text(self, offset: int) -> str:
        start = self._texts + offset
        return self._data[start : self._data.index(b"\0", start)].decode(errors="replace")
