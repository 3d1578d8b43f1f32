"""Foreign text on a terminal: control characters that could steer the terminal are shown, not obeyed.

Names of tasks, strings that a probe fetches and markers hold what any user of the traced machine puts there.  Escaped
are the control characters of ASCII but newline and tab (\\x1b), DEL, those of C1 (\\u009b), bytes that aren't UTF-8
(\\x9b), and the characters that turn the direction of text or break lines (\\u202e).
"""

from __future__ import annotations

import codecs
import os

DIRECTION = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))


def escapes() -> dict[int, str]:
    """Return the table for `str.translate` that escapes control characters."""
    table = {code: f"\\x{code:02x}" for code in (*range(0x20), 0x7F) if chr(code) not in "\t\n"}
    table |= {code: f"\\u{code:04x}" for code in (*range(0x80, 0xA0), *DIRECTION)}
    return table | {0xDC00 + byte: f"\\x{byte:02x}" for byte in range(0x80, 0x100)}  # surrogateescape's


def shown(text: str) -> str:
    """Return text that is safe on a terminal; a line that holds only a caret still points where it did."""
    table = escapes()
    lines, above = [], ""
    for line in text.split("\n"):
        if line.endswith("^") and not line[:-1].strip(" \t"):
            width = len(above[: len(line) - 1].translate(table)) - len(above[: len(line) - 1])
            lines.append(line[:-1] + " " * width + "^")
        else:
            lines.append(line.translate(table))
        above = line
    return "\n".join(lines)


def width(descriptor: int = 1) -> int | None:
    """Return a terminal's number of columns, 80 if it doesn't say; None for what isn't a terminal."""
    try:
        return (os.get_terminal_size(descriptor).columns or 80) if os.isatty(descriptor) else None
    except OSError:
        return None


class Screen:
    """Bytes for a terminal, piece by piece: a character may begin in one piece and end in the next."""

    def __init__(self, encoding: str) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("backslashreplace").decode
        self._table = escapes()
        self._is_utf8 = encoding.lower().replace("-", "").replace("_", "") == "utf8"

    def shown(self, data: bytes, *, is_last: bool = False) -> bytes:
        """Return the text to write for the next piece."""
        text = self._decode(data, is_last).translate(self._table)
        return text.encode() if self._is_utf8 else text.encode("ascii", "backslashreplace")
