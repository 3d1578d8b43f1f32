"""What of others' text reaches a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprobe.errors import caret
from kprobe_text.terminal.control_characters import Screen, shown


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"plain\ttext\n", b"plain\ttext\n"),
        ("für äöü € 🙂\n".encode(), "für äöü € 🙂\n".encode()),
        (b"\x1b]0;title\x07\x1b[31m", b"\\x1b]0;title\\x07\\x1b[31m"),
        (b"a\rb\x08\x7f\x00", b"a\\x0db\\x08\\x7f\\x00"),
        (b"\x9b31m\xff", b"\\x9b31m\\xff"),
        ("\x9b31m\x85".encode(), b"\\u009b31m\\u0085"),
        (b"\xc0\x9b", b"\\xc0\\x9b"),  # an overlong form
        (b"\xed\xb2\x9b", b"\\xed\\xb2\\x9b"),  # a surrogate
        ("cat\u202egpj.exe\u2028".encode(), b"cat\\u202egpj.exe\\u2028"),
        (b"back\\slash", b"back\\slash"),
    ],
)
def test_what_a_terminal_gets(data: bytes, expected: bytes) -> None:
    assert Screen("utf-8").shown(data, is_last=True) == expected
    assert shown(data.decode(errors="surrogateescape")).encode() == expected


def test_a_terminal_that_knows_no_utf8_gets_ascii() -> None:
    assert Screen("iso8859-1").shown("Û\x1b\n".encode(), is_last=True) == b"\\xdb\\x1b\n"


@given(st.binary(), st.integers(0, 20))
def test_pieces_of_any_size_give_the_same(data: bytes, size: int) -> None:
    screen = Screen("UTF-8")
    pieces = [data[at : at + size + 1] for at in range(0, len(data), size + 1)]
    text = b"".join(screen.shown(piece) for piece in pieces) + screen.shown(b"", is_last=True)
    assert text == Screen("UTF-8").shown(data, is_last=True)
    assert not any((char < 32 and char not in (9, 10)) or char == 127 for char in text)
    assert not any(0x80 <= ord(char) < 0xA0 for char in text.decode())


def test_a_caret_stays_below_its_column() -> None:
    assert shown(caret("p:x\x1b[2J vfs_read+5z", 16)) == "  p:x\\x1b[2J vfs_read+5z\n                     ^"
    assert caret("p:x\tvfs_read+5z", 12) == "  p:x\tvfs_read+5z\n     \t        ^"
    assert caret("p:x vfs_read\np:y", 12) == "  p:x vfs_read\\np:y\n              ^"
