"""The ``format`` file of an event: its fields, and how the kernel prints them."""

import re
from typing import NamedTuple


class FormatField(NamedTuple):
    """One field of an event's record; ``length`` is what stands in the brackets of an array, None if it isn't one.

    ``type`` is the C declaration without name and brackets; offset and size are in bytes.
    """

    name: str
    type: str
    length: str | None
    offset: int
    size: int
    signed: bool


class Format(NamedTuple):
    """A format file; ``fields`` holds the common fields too, in the file's order."""

    name: str
    id: int
    fields: tuple[FormatField, ...]
    print_fmt: str


_FIELD = re.compile(r"\s*field:(.*?);\s*offset:(\d{1,9});\s*size:(\d{1,9});(?:\s*signed:([01]);)?")
_NAMED = re.compile(r"\w\[")
_WORD = re.compile(r"\w+")
_LOCATED = re.compile(r"(?:__data_loc|__rel_loc)\s")


def _declaration(text: str) -> tuple[str, str, str | None] | None:
    """Split a declaration into type, name, and what stands in the brackets of an array."""
    end, length = len(text), None
    if text.endswith("]"):
        # the brackets before, as those of `x[2][3]`, belong to no name
        named = _NAMED.search(text, text.rfind("]", 0, -1) + 1)
        if named is None:
            return None
        end, length = named.end() - 1, text[named.end() : -1]
    # the word at the end is looked for from there: from the front, each letter of a long one would begin another try
    word = _WORD.match(text[end - 1 :: -1]) if end else None
    if word is None:
        return None
    start = end - word.end()
    return text[:start].rstrip(), text[start:end], length


def _field(line: str) -> FormatField | None:
    parts = _FIELD.match(line)
    if parts is None:
        return None
    # A string is declared `__data_loc char[] name`, with the brackets before the name.
    kind, name, length = _declaration(parts[1]) or ("", parts[1], None)
    if length is None and kind.endswith("[]") and _LOCATED.match(kind) and not parts[1].endswith("]" + name):
        kind, length = kind[:-2], ""
    return FormatField(name, kind, length, int(parts[2]), int(parts[3]), parts[4] == "1")


def parse_format(text: str | bytes) -> Format:
    """Read the text of a format file.

    Raises ValueError if it has no name or ID, or neither fields nor a print fmt, which is empty if it isn't there: some
    kernels of Android have none for an event. Fields of 3.2 to 7.2 are understood (fixtures/text/*/01_types.formats);
    3.2 has one common field more.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    name = re.search(r"^name: (\S+)$", text, re.M)
    number = re.search(r"^ID: (\d{1,9})$", text, re.M)
    shown = re.search(r"^print fmt: (.*)\Z", text, re.M | re.S)
    fields = [_field(line) for line in (text if shown is None else text[: shown.start()]).splitlines()]
    found = tuple(field for field in fields if field is not None)
    if name is None or number is None or (shown is None and not found):
        raise ValueError("not a format file: it lacks name, ID or fields")
    return Format(name[1], int(number[1]), found, "" if shown is None else shown[1].rstrip("\n"))
