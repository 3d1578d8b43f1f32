"""The header of a ring-buffer page, as described by the files events/header_page and events/header_event."""

import re
from typing import Final, Literal, NamedTuple

# Matched from the beginning of a line: a search would try each of many blanks.
_FIELD: Final = re.compile(r"\s*field:([^;]*);\s*offset:(\d{1,9});\s*size:(\d{1,9});")
_BITS: Final = re.compile(r"\s*(type_len|time_delta|array)\s*:\s*(\d{1,9}) bits")
_KINDS: Final = re.compile(r"\s*(padding|time_extend|time_stamp)\s*: type == (\d{1,9})")
_MOST: Final = re.compile(r"\s*data max type_len\s*== (\d{1,9})")
_SIZES: Final = (4, 8)
LARGEST: Final = 1 << 27  # bytes; the commit has 27 bits for a length


class PageHeader(NamedTuple):
    """The positions in a page of its time stamp, the length of its data, and the data; offsets and sizes in bytes.

    ``long`` is the size of the kernel's long, that of the commit.  ``size`` is that of a whole page.
    """

    stamp: int
    commit: int
    long: int
    data: int
    size: int
    order: Literal["little", "big"]

    def of_size(self, size: int) -> "PageHeader":
        """Return the header for pages of another size, as set by buffer_subbuf_size_kb."""
        return self._replace(size=size)


def page_header(text: str | bytes, *, order: Literal["little", "big"] = "little") -> PageHeader:
    """Read the text of events/header_page; ``order`` is the byte order of the kernel.

    Raises ValueError if it lacks a field, or has an impossible one.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    found = filter(None, map(_FIELD.match, text.splitlines()))
    fields = {"".join(field[1].split()[-1:]): (int(field[2]), int(field[3])) for field in found}
    missing = [name for name in ("timestamp", "commit", "data") if name not in fields]
    if missing:
        raise ValueError(f"not a header_page: it has no field {missing[0]}")
    (stamp, stamp_size), (commit, long), (data, size) = fields["timestamp"], fields["commit"], fields["data"]
    if stamp_size != 8 or long not in _SIZES or max(stamp + 8, commit + long) > data or not 0 < size < LARGEST:
        raise ValueError(
            f"a header_page that isn't understood: timestamp at {stamp} of {stamp_size} bytes, commit at {commit} of "
            f"{long}, data at {data} of {size}"
        )
    return PageHeader(stamp, commit, long, data, data + size, order)


def check_event_header(text: str | bytes) -> None:
    """Raise ValueError if events/header_event differs from that of all kernels up to 7.3."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    said = {"data": 28}
    for line in text.splitlines():
        if one := _BITS.match(line) or _KINDS.match(line):
            said[one[1]] = int(one[2])
        elif most := _MOST.match(line):
            said["data"] = int(most[1])
    known = {"type_len": 5, "time_delta": 27, "array": 32, "padding": 29, "time_extend": 30, "time_stamp": 31}
    for name, number in said.items():
        if number != known.get(name, 28):
            raise ValueError(f"a header_event that isn't understood: {name} is {number}, not {known.get(name, 28)}")
    if "type_len" not in said:
        raise ValueError("not a header_event: it doesn't say how long type_len is")
