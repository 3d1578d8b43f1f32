"""The tokens of a program in Go, C, C++, Rust or Perl: names, marks, and strings with their values.

Pygments (the extra [check]) tells strings, comments and code apart; the values of strings are read here.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

from kprobe_check.sources.texts import Text, plus
from kprobe_check.statement import Position

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pygments.lexer import Lexer  # type: ignore[import-untyped]

GO, C, RUST, PERL = "go", "c", "rust", "perl"
STRING, NAME, MARK = "string", "name", "mark"
_CODE = re.compile(r"[$@%]{0,4}\w+|[$@%]\{|:=|->|=>|::|<<|>>|\|\||&&|[=!<>.+]=|\n|\S")
_DEFINE = re.compile(r"#\s*define\s+(\w+)(\([^)\n]*\))?[ \t]+")
_ESCAPE = re.compile(
    r"\\(?:x\{?([0-9a-fA-F]{1,6})\}?|([0-7]{1,3})|[uU]\{?([0-9a-fA-F]{1,8})\}?|(\r?\n[ \t]*)|(.))", re.S
)
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "e": "\x1b"}
_START = re.compile(
    r"""(?:u8|[uUL])?R"([^()\\\s]{0,16})\(|(?:br|cr|r)(\#*)"|(?:u8|[uULbc])?"|'|`|(q[qxrw]?|m|s|y|tr)\s*([^\w\s])|<<~?(["']?)(\w+)\5""",
)
_VARIABLE = re.compile(r"[$@](?:\{\s*\w+\s*\}|\w+(?:::\w+)*)(?:(?:->)?[\[{][^\]}\n]{0,40}[\]}])*|@\{\[[^\]]{0,200}\]\}")
_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}


class Lexeme(NamedTuple):
    """A token: `value` is its text, or a string's value."""

    kind: str
    value: Text
    offset: int


class MissingLibrary(Exception):
    """Pygments isn't installed."""


def tokens(text: str, language: str, source: str) -> list[Lexeme]:
    """Return the tokens of a program.  Raise `MissingLibrary`."""
    return list(_Lexed(text, language, source).tokens(text, 0))


class _Lexed:
    def __init__(self, text: str, language: str, source: str) -> None:
        self._language = language
        self._source = source
        self._lexer = _lexer(language)
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def tokens(self, text: str, offset: int) -> Iterator[Lexeme]:
        for kind, start, end in self._spans(text):
            if kind == STRING:
                yield from self._strings(text[start:end], offset + start)
            elif kind == MARK:
                yield from self._defined(text[start:end], offset + start)
            else:
                for found in _CODE.finditer(text, start, end):
                    is_name = re.search(r"\w", found[0]) is not None
                    kind = NAME if is_name else MARK
                    yield Lexeme(
                        kind, Text(found[0], (), self._position(offset + found.start())), offset + found.start()
                    )

    def _spans(self, text: str) -> Iterator[tuple[str, int, int]]:
        """Yield runs of strings (STRING), preprocessor lines (MARK) and code (NAME)."""
        from pygments.token import Comment, String  # type: ignore[import-untyped]

        kind, start, end = "", 0, 0
        for begin, sort, value in self._lexer.get_tokens_unprocessed(text):
            if sort in String.Char or sort in String.Regex or (sort in Comment and sort not in Comment.Preproc):
                new = ""
            elif sort in String:
                new = STRING
            else:
                new = MARK if sort in Comment.Preproc else NAME
            if new != kind or begin != end:
                if kind:
                    yield kind, start, end
                kind, start = new, begin
            end = begin + len(value)
        if kind:
            yield kind, start, end

    def _defined(self, text: str, offset: int) -> Iterator[Lexeme]:
        """Yield a macro as a constant."""
        for line in re.finditer(r"(?:\\\n|.)+", text):
            found = _DEFINE.match(line[0])
            if found is None or found[2]:
                continue
            where = offset + line.start()
            yield Lexeme(NAME, Text(found[1], (), self._position(where)), where)
            yield Lexeme(MARK, Text("=", (), self._position(where)), where)
            yield from self.tokens(line[0][found.end() :].replace("\\\n", " \n"), where + found.end())
            yield Lexeme(MARK, Text(";", (), self._position(where)), where)

    def _position(self, offset: int) -> Position:
        line = bisect_right(self._starts, offset)
        return Position(self._source, line, offset - self._starts[line - 1] + 1)

    # ------------------------------------------------------------------------------------------------- strings

    def _strings(self, text: str, offset: int) -> Iterator[Lexeme]:
        index = 0
        while index < len(text):
            found = _START.match(text, index)
            if found is None:
                index += 1
                continue
            body, end, is_raw = self._body(text, found)
            rows = body.count("\n")
            position = self._position(offset + index)
            said = Text(body) if is_raw else self._unescaped(body)
            if found[6]:
                position = (
                    self._position(offset + text.index("\n", found.end()) + 1)
                    if "\n" in text[found.end() :]
                    else position
                )
            yield Lexeme(STRING, said._replace(position=position, rows=rows), offset + index)
            index = end

    def _body(self, text: str, found: re.Match[str]) -> tuple[str, int, bool]:
        """Return the text between a string's quotes, where it ends, and whether it has no escapes."""
        written, start = found[0], found.end()
        if found[6]:
            return self._here(text, found)
        if found[3]:
            return self._chosen(text, found)
        if written.endswith("("):
            closing = f'){found[1]}"'
        elif found[2] is not None:
            closing = f'"{found[2]}'
        else:
            closing = written[-1]
            is_plain = closing == "`" and self._language != PERL
            end = start
            while end < len(text) and text[end] != closing:
                end += 2 if text[end] == "\\" and not is_plain else 1
            body = text[start:end]
            if closing == "'":
                body = re.sub(r"\\([\\'])", r"\1", body)
            return body, min(end + 1, len(text)), is_plain or closing == "'"
        end = text.find(closing, start)
        end = len(text) if end < 0 else end
        return text[start:end], min(end + len(closing), len(text)), True

    def _chosen(self, text: str, found: re.Match[str]) -> tuple[str, int, bool]:
        """Return the body of q(…), qq{…} and the like, which may contain the same brackets in pairs."""
        opening = found[4]
        closing = _CLOSING.get(opening, opening)
        end, depth = found.end(), 1
        while end < len(text):
            if text[end] == "\\":
                end += 1
            elif text[end] == closing:
                depth -= 1
                if not depth:
                    break
            elif text[end] == opening:
                depth += 1
            end += 1
        return text[found.end() : end], min(end + 1, len(text)), found[3] == "q"

    def _here(self, text: str, found: re.Match[str]) -> tuple[str, int, bool]:
        start = text.find("\n", found.end()) + 1
        end = re.compile(rf"^\s*{found[6]}\b", re.M).search(text, start) if start else None
        stop = end.start() if end else len(text)
        return text[start or len(text) : stop], end.end() if end else len(text), found[5] == "'"

    def _unescaped(self, body: str) -> Text:
        if self._language != PERL:
            return Text(_ESCAPE.sub(_meant, body))
        found, offset = Text(""), 0
        for one in re.finditer(rf"{_ESCAPE.pattern}|(?P<variable>{_VARIABLE.pattern})", body, re.S):
            found = plus(found, Text(body[offset : one.start()]))
            offset = one.end()
            name = one["variable"]
            found = plus(found, Text(name, (name,)) if name else Text(_meant(one)))
        return plus(found, Text(body[offset:]))


def _meant(found: re.Match[str]) -> str:
    if found[4] is not None:
        return ""
    if found[5] is not None:
        return _LETTERS.get(found[5], found[5])
    code = int(found[2], 8) & 0xFF if found[2] else int(found[1] or found[3], 16)
    return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else "?"


def _lexer(language: str) -> Lexer:
    try:
        from pygments import lexers  # type: ignore[import-untyped]
    except ImportError:
        raise MissingLibrary from None
    name = {GO: "GoLexer", C: "CppLexer", RUST: "RustLexer", PERL: "PerlLexer"}[language]
    lexer: Lexer = getattr(lexers, name)()
    return lexer
