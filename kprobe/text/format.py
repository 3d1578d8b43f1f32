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


_FIELD = re.compile(r"\s*field:(.*?);\s*offset:(\d+);\s*size:(\d+);(?:\s*signed:([01]);)?")
_DECLARATION = re.compile(r"(.*?)\s*\b(\w+)(?:\[([^\]]*)\])?")
_LOCATED = re.compile(r"((?:__data_loc|__rel_loc)\s.*?)\[\]\s+(\w+)")


def _field(line: str) -> FormatField | None:
    parts = _FIELD.match(line)
    if parts is None:
        return None
    # A string is declared `__data_loc char[] name`, with the brackets before the name.
    located = _LOCATED.fullmatch(parts[1])
    declaration = _DECLARATION.fullmatch(parts[1])
    offset, size, signed = int(parts[2]), int(parts[3]), parts[4] == "1"
    if located is not None:
        return FormatField(located[2], located[1], "", offset, size, signed)
    if declaration is not None:
        return FormatField(declaration[2], declaration[1], declaration[3], offset, size, signed)
    return FormatField(parts[1], "", None, offset, size, signed)


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
