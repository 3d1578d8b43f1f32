"""Prototypes out of BTF, and where parameters are."""

from __future__ import annotations

import struct

import pytest

from kprobe.kernel.btf import Btf
from kprobe.kernel.prototype import CType, Parameter, Prototype

INT = CType("int", "int", 4, True)


def blob() -> bytes:
    """Return BTF of `void f(const char __user *name, struct pair pair, int (*done)(), enum e, ...)`."""
    texts = bytearray(b"\0")

    def text(word: str) -> int:
        if not word:
            return 0
        texts.extend(word.encode() + b"\0")
        return len(texts) - len(word) - 1

    def entry(kind: int, name: str, size: int, data: bytes = b"", count: int = 0, flag: int = 0) -> bytes:
        return struct.pack("<III", text(name), flag << 31 | kind << 24 | count, size) + data

    types = [
        entry(1, "char", 1, struct.pack("<I", 1 << 24 | 8)),  # 1
        entry(10, "", 1),  # 2: const
        entry(18, "user", 2),  # 3: a tag
        entry(2, "", 3),  # 4: pointer
        entry(4, "pair", 16),  # 5
        entry(1, "int", 4, struct.pack("<I", 1 << 24 | 32)),  # 6
        entry(13, "", 6),  # 7: int ()
        entry(2, "", 7),  # 8
        entry(6, "colour", 4, struct.pack("<Ii", 0, -1), 1, 1),  # 9
        entry(8, "colour_t", 9),  # 10
    ]
    rows = (("name", 4), ("pair", 5), ("done", 8), ("e", 10), ("", 0))
    parameters = b"".join(struct.pack("<II", text(name), kind) for name, kind in rows)
    types += [entry(13, "", 0, parameters, len(rows)), entry(12, "f", 11)]  # 11, 12
    body = b"".join(types)
    return struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(body), len(body), len(texts)) + body + bytes(texts)


def test_types() -> None:
    found = Btf(blob()).prototype("f")
    assert found is not None
    assert found.declaring("f") == ("void f(const char __user *name, struct pair pair, int (*done)(), colour_t e, ...)")
    kinds = [(each.type.kind, each.type.size, each.type.signed) for each in found.parameters]
    assert kinds == [("ptr", 8, False), ("struct", 16, False), ("ptr", 8, False), ("enum", 4, True), ("void", 0, False)]
    assert (found.parameters[0].type.is_text, found.parameters[0].type.is_users) == (True, True)
    assert found.slots() == [(1,), (2, 3), (4,), (5,), ()]
    assert Btf(blob()).prototype("g") is None


def test_data_that_is_no_btf_or_cut_is_refused() -> None:
    with pytest.raises(ValueError, match="it begins with 0x457f, not 0xeb9f"):
        Btf(b"\x7fELF" + bytes(60))
    whole = blob()
    for length in range(0, 24 + 12 * 12, 7):
        with pytest.raises(ValueError, match=r"damaged BTF|BTF ends too early"):
            Btf(whole[:length])


def test_what_goes_to_the_stack() -> None:
    """What doesn't fit leaves the register to a later one; $arg7 is above the return address."""
    large, two = CType("struct large", "struct", 24, False), CType("struct pair", "struct", 16, False)
    kinds = [INT, large, INT, INT, INT, INT, two, INT, INT]
    prototype = Prototype(tuple(Parameter(f"a{at}", kind) for at, kind in enumerate(kinds)), INT)
    assert prototype.slots() == [(1,), (7, 8, 9), (2,), (3,), (4,), (5,), (10, 11), (6,), (12,)]


@pytest.mark.parametrize(
    ("text", "is_text"),
    [
        ("const char *", True),
        ("const char __user *", True),
        ("char *", False),
        ("const char **", False),
        ("const unsigned char *", True),
        ("const void *", False),
        ("const char * const", False),
    ],
)
def test_texts(text: str, is_text: bool) -> None:
    assert CType(text, "ptr", 8, False).is_text == is_text


def test_members() -> None:
    """Of `void g(struct outer *o, int n)`, with pointers, structs, bits and members without a name in it."""
    texts = bytearray(b"\0")

    def text(word: str) -> int:
        texts.extend(word.encode() + b"\0")
        return len(texts) - len(word) - 1

    def entry(kind: int, name: int, size: int, members: tuple[tuple[int, ...], ...] = (), flag: int = 0) -> bytes:
        body = b"".join(struct.pack(f"<{len(row)}I", *row) for row in members)
        return struct.pack("<III", name, flag << 31 | kind << 24 | len(members), size) + body

    types = [
        struct.pack("<IIII", text("int"), 1 << 24, 4, 1 << 24 | 32),  # 1
        entry(4, text("inner"), 16, ((text("x"), 1, 64), (text("self"), 5, 0))),  # 2
        entry(4, text("outer"), 32, ((text("bits"), 1, 3 << 24), (0, 4, 64), (text("in"), 6, 128)), 1),  # 3
        entry(5, 0, 8, ((text("next"), 5, 0), (text("n"), 1, 0))),  # 4: a union without a name
        struct.pack("<III", 0, 2 << 24, 2),  # 5: struct inner *
        struct.pack("<III", text("inner_t"), 8 << 24, 2),  # 6
        struct.pack("<III", 0, 2 << 24, 8),  # 7: const struct outer *
        struct.pack("<III", 0, 10 << 24, 3),  # 8
        entry(13, 0, 0, ((text("o"), 7), (text("n"), 1))),  # 9
        struct.pack("<III", text("g"), 12 << 24, 9),  # 10
    ]
    body = b"".join(types)
    data = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(body), len(body), len(texts)) + body + bytes(texts)
    follow = Btf(data).follow
    pointer = CType("struct inner *", "ptr", 8, False)
    assert follow("g", 0, "n") == ((8,), INT)
    assert follow("g", 0, "next") == ((8,), pointer)
    assert follow("g", 0, "next.x") == ((8, 8), INT)
    assert follow("g", 0, "next.self.self.x") == ((8, 0, 0, 8), INT)
    assert follow("g", 0, "in.x") == ((24,), INT)
    for function, at, path in (
        ("g", 0, "bits"),
        ("g", 0, "none"),
        ("g", 0, "n.x"),
        ("g", 1, "x"),
        ("g", 2, "x"),
        ("f", 0, "x"),
        ("g", 0, "next.x.y"),
    ):
        assert follow(function, at, path) is None
