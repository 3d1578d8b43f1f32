"""Functions in a kernel's BTF: parameters and return type, and the members of the structs they lead to."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from kprobe_sim.builds.packed import Numbers, Texts, open_sections
from kprobe_sim.builds.recorded import RecordedSymbols
from kprobe_sim.named_tuple import NamedTuple

MAGIC = b"kprobtyp"
VOID = 0  # the number of the type void
PROTOTYPES, TYPES = 256, 64  # lines to a chunk
_SIGNED, _CHAR, _BOOL = 1, 2, 4  # the encoding of an int
_POINTER_SIZE = 8
_ANONYMOUS_DEPTH = 16
_REMEMBERED = 4096  # answers of a kind


class CType(NamedTuple):
    """A C type as in BTF; `size` in bytes, 0 for void."""

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


class Signature(NamedTuple):
    """A function's parameters and what it returns, types by number."""

    parameters: tuple[tuple[str, int], ...]
    returns: int


class Member(NamedTuple):
    """A member of a struct or union: its type's number, offset in bits, and width in bits of a bitfield, else 0."""

    type: int
    offset: int
    bits: int


class PrototypeTable:
    """The recorded prototypes (`prototypes.bin`, written by `kprobe-vm record`), searched in place.

    `signature` of a name is that of the first recorded symbol of that name that has one, None if none has; `find` gives
    the prototype.  Both remember what they answered.

    The file has the form of symbols.bin.  `index` per symbol of symbols.bin: 0 or the number of its prototype;
    `chars` the numbers in
    the kernel's BTF of all types that are characters; `protos` lines, 256 to a chunk: return type, then name:type per
    parameter; `types` lines, 64 to a chunk: a letter, then what it has of target type, size, encoding, signedness,
    bits, name and members (name:type:offset[:bits]); `structs` lines, 256 to a chunk, by name: name, type.
    """

    def __init__(self, path: Path, symbols: RecordedSymbols | None = None) -> None:
        sections = open_sections(path, MAGIC)
        self._symbols = symbols
        self._index = Numbers(sections["index"])
        self._protos = Texts(sections["protos"])
        self._types = Texts(sections["types"])
        self._structs = Texts(sections["structs"]) if "structs" in sections else None
        self._lines: dict[int, list[str]] = {}
        self._characters = sections["chars"].cast("I")
        self.signature: Callable[[str], Signature | None] = lru_cache(_REMEMBERED)(self._signature)
        self.find: Callable[[str], Prototype | None] = lru_cache(_REMEMBERED)(self._find)

    def _signature(self, name: str) -> Signature | None:
        for position in () if self._symbols is None else self._symbols.positions(name):
            number = self._index[position]
            if number:
                chunk, line = divmod(number - 1, PROTOTYPES)
                returns, *words = self._protos[chunk].decode().split("\n")[line].split("\t")
                pairs = (word.split(":") for word in words)
                return Signature(tuple((parameter, int(kind)) for parameter, kind in pairs), int(returns))
        return None

    def _find(self, name: str) -> Prototype | None:
        signature = self.signature(name)
        if signature is None:
            return None
        return Prototype(
            tuple(
                Parameter(parameter, CType("...", "void", 0, False) if parameter == "..." else self.c_type(kind))
                for parameter, kind in signature.parameters
            ),
            self.c_type(signature.returns),
        )

    # ---------------------------------------------------------------------------------------------- types by number

    def _words(self, number: int) -> list[str]:
        chunk, line = divmod(number, TYPES)
        lines = self._lines.get(chunk)
        if lines is None:
            lines = self._lines[chunk] = self._types[chunk].decode().split("\n")
        return lines[line].split("\t")

    def resolve(self, number: int) -> int:
        """Follow typedefs and qualifiers."""
        words = self._words(number)
        while words[0] in "tcvr":
            number = int(words[1])
            words = self._words(number)
        return number

    def pointed(self, number: int) -> int | None:
        """Return what a pointer points to, typedefs and qualifiers followed; None for anything but a pointer."""
        words = self._words(number)
        return self.resolve(int(words[1])) if words[0] == "*" else None

    def struct(self, name: str) -> int | None:
        """Return the struct (not union) of that name, or None.  Raises LookupError in a profile without their names."""
        structs = self._structs
        if structs is None:
            raise LookupError("this profile was recorded without the names of structs")
        low, high = 0, len(structs)
        while high - low > 1:  # the last chunk that doesn't start after the name
            middle = (low + high) // 2
            if structs[middle].partition(b"\t")[0].decode() > name:
                high = middle
            else:
                low = middle
        for line in structs[low].decode().split("\n"):
            recorded, _, number = line.partition("\t")
            if recorded == name:
                return int(number)
        return None

    def some_struct(self, name: str) -> int | None:
        """Look for a struct of that name among all recorded types: those that functions lead to."""
        for chunk in range(len(self._types)):
            for line, text in enumerate(self._types[chunk].decode().split("\n")):
                words = text.split("\t", 3)
                if words[0] == "s" and words[2] == name:
                    return chunk * TYPES + line
        return None

    def is_struct(self, number: int) -> bool:
        """Return whether a type is a struct or a union."""
        return self._words(number)[0] in "su"

    def member(self, number: int, name: str) -> Member | None:
        """Find a member of a struct or union, or of an anonymous one in it, as btf_find_struct_member()."""
        waiting: list[tuple[int, int]] = []
        base = 0
        while True:
            for word in self._words(number)[3:]:
                own, kind, offset, *bits = word.split(":")
                if own == name and own:
                    return Member(int(kind), base + int(offset), int(bits[0]) if bits else 0)
                if not own and len(waiting) < _ANONYMOUS_DEPTH and self.is_struct(inner := self.resolve(int(kind))):
                    waiting.append((inner, base + int(offset)))
            if not waiting:
                return None
            number, base = waiting.pop()

    def follow(self, name: str, parameter: int, path: str) -> tuple[tuple[int, ...], CType] | None:
        """Return the offsets that lead from a function's parameter to a member, and its type; None if it isn't known.

        `path` names members, and members of what those are or point to: a.b.c.  The offsets are bytes, one for each
        pointer on the way; a bit field has none.
        """
        prototype = self.signature(name)
        if prototype is None or parameter >= len(prototype.parameters):
            return None
        number, offsets = self.resolve(prototype.parameters[parameter][1]), []
        for word in path.split("."):
            if (pointed := self.pointed(number)) is not None:
                number = pointed
                offsets.append(0)
            member = self.member(number, word) if offsets and self.is_struct(number) else None
            if member is None or member.bits or member.offset % 8:
                return None
            number = self.resolve(member.type)
            offsets[-1] += member.offset // 8
        return tuple(offsets), self.c_type(number)

    def integer(self, number: int) -> tuple[int, bool] | None:
        """Return width in bits and signedness of an int (char and bool are ints too), None for another type."""
        words = self._words(number)
        return (int(words[3]), bool(int(words[2]) & _SIGNED)) if words[0] == "i" else None

    def element(self, number: int) -> int | None:
        """Return the type of an array's elements, typedefs and qualifiers followed; None for anything but an array."""
        words = self._words(number)
        return self.resolve(int(words[1])) if words[0] == "[" else None

    def is_character_by_size(self, number: int) -> bool:
        """Return what the kernel finds when it takes the size of a type that has one for what a pointer points to.

        btf_type_is_char_ptr() doesn't ask whether the type is a pointer: 6.12 takes `$retval:string` of a long.
        """
        words = self._words(number)
        return words[0] in "isueEn" and int(words[1]) in self._characters

    def letter(self, number: int) -> str:
        """Return the letter of a type's kind: i * [ s u e E f t c v r ( n, 0 for void."""
        return self._words(number)[0]

    def size(self, number: int) -> int:
        """Return the size of a type in bytes."""
        words = self._words(self.resolve(number))
        if words[0] == "[":
            return int(words[2]) * self.size(int(words[1]))
        if words[0] == "*":
            return _POINTER_SIZE
        return int(words[1]) if words[0] in "isueEn" else 0

    def c_type(self, number: int) -> CType:
        """Return a type as in C."""
        words = self._words(self.resolve(number))
        kinds = {"*": "ptr", "[": "array", "s": "struct", "u": "union", "e": "enum", "E": "enum", "n": "float"}
        kind = kinds.get(words[0], "struct" if words[0] == "f" else "void")
        signed = words[0] in "eE" and words[2] == "1"
        if words[0] == "i":
            encoding = int(words[2])
            kind = "bool" if encoding & _BOOL else "int"
            if encoding & _CHAR or (words[1] == "1" and "char" in words[4]):
                kind = "char"
            signed = bool(encoding & _SIGNED)
        return CType(self._text(number), kind, self.size(number), signed)

    def _text(self, number: int) -> str:
        words = self._words(number)
        letter = words[0]
        if letter == "*":
            inner = self._text(int(words[1]))
            return inner + ("*" if inner.endswith("*") else " *")
        if letter in "cvr":
            word = {"c": "const", "v": "volatile", "r": "restrict"}[letter]
            inner = self._text(int(words[1]))
            return f"{inner} {word}" if inner.endswith("*") else f"{word} {inner}"
        if letter == "[":
            return f"{self._text(int(words[1]))}[{words[2]}]"
        if letter == "(":
            return f"{self._text(int(words[1]))} ()"
        names = {"s": "struct", "u": "union", "e": "enum", "E": "enum", "f": "struct"}
        if letter in names:
            name = words[{"s": 2, "u": 2, "e": 3, "E": 3, "f": 1}[letter]]
            return f"{names[letter]} {name or '(anon)'}"
        return words[-1] if number else "void"
