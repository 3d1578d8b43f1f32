"""The output of a shell's `echo` and `printf`, and the value of $'…': in bash, and in dash, which is /bin/sh elsewhere.

Sources: POSIX, "printf" and "echo"; bash(1), "SHELL BUILTIN COMMANDS"; dash(1).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "e": "\x1b", "\\": "\\"}
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|(.))", re.S)
_ESCAPE_OF_ECHO = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|0([0-7]{0,3})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|(.))", re.S
)
_ESCAPE_OF_B = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|0?([0-7]{1,3})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|(.))", re.S)
_ESCAPE_IN_DASH = re.compile(r"\\(?:(?!)()|(0[0-7]{0,3}|[0-7]{1,3})|(?!)()|(?!)()|(.))", re.S)  # of echo and %b
_CONTROL = re.compile(r"\\(?:c(.)|.)", re.S)
_CONVERSION = re.compile(r"%([-+ #0]*+)(\d*+|\*)(?:\.(\d*+|\*))?(?:hh|h|ll|l|j|z|t|L)?([A-Za-z%])")
_NUMBER = re.compile(r"\s*[-+]?(?:0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")
_SINGLE = {"E": "\x1b", '"': '"', "'": "'", "?": "?"}  # escapes that only bash knows


class Unclear(ValueError):
    """The output can't be known; the text says why."""


def dollar_quoted(text: str) -> str:
    """Return the value of $'TEXT', which a NUL ends."""
    said = _CONTROL.sub(lambda found: chr(ord(found[1].upper()) & 0x1F) if found[1] else found[0], text)
    return _unescaped(said, _ESCAPE, {**_LETTERS, **_SINGLE})[0].partition("\0")[0]


def echo(words: Sequence[str], *, is_bash: bool) -> str:
    """Return what `echo` with these words prints, without the newline that -n leaves out.  Raise `Unclear`."""
    rest = list(words)
    escapes = not is_bash
    while rest and re.fullmatch(r"-[neE]+" if is_bash else r"-n", rest[0]):
        option = rest.pop(0)
        for letter in option[1:]:
            escapes = {"e": True, "E": False}.get(letter, escapes)
        if not is_bash:
            break
    text = " ".join(rest)
    if not escapes or "\\" not in text:
        return text
    if is_bash:
        return _unescaped(text, _ESCAPE_OF_ECHO, {**_LETTERS, "E": "\x1b"})[0]
    return _unescaped(text, _ESCAPE_IN_DASH, _LETTERS)[0]


def _unescaped(text: str, escape: re.Pattern[str], letters: dict[str, str]) -> tuple[str, bool]:
    """Return a text with its escapes expanded, and whether one ended it."""
    pieces, offset = list[str](), 0
    for found in escape.finditer(text):
        pieces.append(text[offset : found.start()])
        offset = found.end()
        letter = found[5]
        if letter is None:
            pieces.append(_code(found))
        elif letter == "c" and escape is not _ESCAPE:
            return "".join(pieces), True
        else:
            pieces.append(letters.get(letter, "\\" + letter))
    return "".join([*pieces, text[offset:]]), False


def _code(found: re.Match[str]) -> str:
    if found[3] or found[4]:
        return chr(int(found[3] or found[4], 16) & 0x10FFFF)
    byte = int(found[1], 16) if found[1] else int(found[2] or "0", 8) & 0xFF
    return bytes([byte]).decode(errors="surrogateescape")


def printf(words: Sequence[str], *, is_bash: bool) -> str:
    """Return what `printf` with these words prints: the format as often as there are arguments.  Raise `Unclear`."""
    rest = list(words)
    if rest and rest[0] == "--":
        rest.pop(0)
    elif rest and rest[0].startswith("-"):
        raise Unclear("printf's options aren't known")
    if not rest:
        raise Unclear("printf is given nothing to print")
    form, arguments = rest[0], rest[1:]
    printer = _Printer(form, arguments, is_bash=is_bash)
    return printer.text()


class _Printer:
    def __init__(self, form: str, arguments: list[str], *, is_bash: bool) -> None:
        self._form = form
        self._arguments = arguments
        self._is_bash = is_bash
        self._offset = 0  # the next argument
        self._is_ended = False

    def text(self) -> str:
        pieces = [self._once()]
        while not self._is_ended and 0 < self._offset < len(self._arguments):
            pieces.append(self._once())
        return "".join(pieces)

    def _once(self) -> str:
        pieces, offset, form = list[str](), 0, self._form
        while offset < len(form) and not self._is_ended:
            if form[offset] == "\\":
                piece, offset = self._escape(offset)
            elif form[offset] == "%":
                piece, offset = self._conversion(offset)
            else:
                stop = next((end for end in range(offset, len(form)) if form[end] in "\\%"), len(form))
                piece, offset = form[offset:stop], stop
            pieces.append(piece)
        return "".join(pieces)

    def _escape(self, offset: int) -> tuple[str, int]:
        found = _ESCAPE.match(self._form, offset)
        if found is None:
            return "\\", offset + 1
        if found[2] is not None or (self._is_bash and found[5] is None):
            return _code(found), found.end()
        letter = self._form[offset + 1]
        letters = {**_LETTERS, **(_SINGLE if self._is_bash else {})}
        return letters.get(letter, "\\" + letter), offset + 2

    def _conversion(self, offset: int) -> tuple[str, int]:
        found = _CONVERSION.match(self._form, offset)
        if found is None:
            raise Unclear(f"printf knows no {self._form[offset : offset + 2]}")
        flags, width, precision, letter = found.groups()
        if letter == "%":
            return "%", found.end()
        width = self._argument() if width == "*" else width
        precision = self._argument() if precision == "*" else precision
        said = self._converted(letter, flags, width, precision)
        return said, found.end()

    def _converted(self, letter: str, flags: str, width: str, precision: str | None) -> str:
        if not re.fullmatch(r"-?\d{0,4}", width) or not re.fullmatch(r"\d{0,4}", precision or ""):
            raise Unclear("a width isn't a number")
        point = "" if precision is None else f".{precision or 0}"
        if letter in "sbc":
            text = self._argument()
            if letter == "b":
                letters = {**_LETTERS, "E": "\x1b"} if self._is_bash else _LETTERS
                text, self._is_ended = _unescaped(text, _ESCAPE_OF_B if self._is_bash else _ESCAPE_IN_DASH, letters)
            if letter == "c":
                text, point = text[:1] or "\0", ""
            kept = "".join(flag for flag in flags if flag == "-")
            return f"%{kept}{width}{point}s" % text
        if letter in "diuoxX":
            number = _number(self._argument())
            if number < 0 and letter not in "di":
                number &= (1 << 64) - 1
            return _integer(letter, flags, width, precision, number)
        raise Unclear(f"what printf makes of %{letter} isn't known")

    def _argument(self) -> str:
        self._offset += 1
        return self._arguments[self._offset - 1] if self._offset <= len(self._arguments) else ""


def _number(text: str) -> int:
    if not text:
        return 0
    if text[0] in "'\"":
        return ord(text[1]) if len(text) > 1 else 0
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise Unclear(f"printf takes {text!r} for no number")
    digits = text.strip().lower()
    sign, bare = (digits[0], digits[1:]) if digits[0] in "+-" else ("", digits)
    base = 16 if bare.startswith("0x") else 8 if bare.startswith("0") else 10
    number = int(bare, base) * (-1 if sign == "-" else 1)
    if not -(1 << 63) <= number < 1 << 63:
        raise Unclear(f"{text} is too large a number")
    return number


def _integer(letter: str, flags: str, width: str, precision: str | None, number: int) -> str:
    """Return a number as C prints it."""
    digits = format(abs(number), {"o": "o", "x": "x", "X": "X"}.get(letter, "d"))
    if precision is not None:
        digits = "" if not number and not int(precision or 0) else digits.rjust(int(precision or 0), "0")
    if letter == "o" and "#" in flags and not digits.startswith("0"):
        digits = "0" + digits
    prefix = f"0{letter}" if letter in "xX" and "#" in flags and number else ""
    if letter in "di":
        prefix = "-" if number < 0 else "+" if "+" in flags else " " if " " in flags else ""
    is_left = "-" in flags or width.startswith("-")
    size = int(width.lstrip("-") or 0)
    if "0" in flags and not is_left and precision is None:
        digits = digits.rjust(size - len(prefix), "0")
    text = prefix + digits
    return text.ljust(size) if is_left else text.rjust(size)
