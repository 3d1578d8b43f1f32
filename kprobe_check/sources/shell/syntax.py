"""A shell script's words, commands and redirections, as far as they can be known without running a shell.

Nothing is expanded here; a word consists of pieces.  Any text can be read; its end closes open quotes, groups and
here-documents.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from kprobe_check.sources.shell.printing import dollar_quoted

LITERAL, PARAMETER, COMMAND, ARRAY, UNKNOWN = "literal", "parameter", "command", "array", "unknown"
GROUP, CHOICE, LOOP, EACH, FUNCTION, MAYBE = "group", "choice", "loop", "each", "function", "maybe"
DEPTH = 40  # nested groups and substitutions; deeper ones aren't read
_NAME = re.compile(r"\w+|[#?@*!$-]")
_IN_BRACES = re.compile(r"(\w+(?:\[[@*]\])?|[@*])(?:(:?[-=?+])(.*))?", re.S)
_OPERATOR = re.compile(r"&>>?|\d*(?:>>|>\||>&|<<-|<<<|<<|<&|<>|>|<)|&&|\|\||\|&|;;&?|;&|[;&|()\n]")
_PLAIN = re.compile(r"[^\s;&|()<>'\"\\$`{]+")
_END = frozenset(" \t\n;&|()<>")
_BRACES = re.compile(r"\{[^\s{}'\"$]*\}")


class WordPart(NamedTuple):
    """A piece of a word: literal text, a parameter `name` with its operators in braces, or a command's output.

    `text` is a literal piece's value, and any other's code.
    """

    kind: str
    text: str
    is_quoted: bool = False
    name: str = ""
    operator: str = ""
    default: tuple[WordPart, ...] = ()
    body: tuple[Token, ...] = ()  # of a command's output, to be read by `grammar.nodes`
    elements: tuple[Word, ...] = ()  # of an array


class Word(NamedTuple):
    """A word; `text` has no quotes, and has expansions as written."""

    parts: tuple[WordPart, ...]
    line: int
    column: int

    @property
    def text(self) -> str:
        """Return the word without its quotes, nothing expanded."""
        return "".join(part.text for part in self.parts)

    @property
    def is_literal(self) -> bool:
        """Return whether it has no expansions."""
        return all(part.kind == LITERAL for part in self.parts)


class Redirection(NamedTuple):
    """A redirection: its number ("" if none), the operator, and the file, or the lines of a here-document."""

    number: str
    operator: str
    target: Word
    body: Word | None = None


class Command(NamedTuple):
    """A simple command."""

    words: tuple[Word, ...]
    redirections: tuple[Redirection, ...]


class Pipeline(NamedTuple):
    """Commands, each of which reads the output of the one before."""

    stages: tuple[Node, ...]


class Compound(NamedTuple):
    """Commands with their own redirections.

    `kind` is GROUP; CHOICE, whose bodies exclude one another (an empty one if none may run); LOOP, or EACH with the
    variable `name` and its words; FUNCTION, with its name; MAYBE, whose body may be left out.
    """

    kind: str
    bodies: tuple[tuple[Node, ...], ...]
    redirections: tuple[Redirection, ...] = ()
    name: str = ""
    words: tuple[Word, ...] | None = None
    is_apart: bool = False  # in its own shell: ( … )


Node = Command | Pipeline | Compound


class Document:
    """A here-document that was announced, and is read at the end of its line."""

    def __init__(self, delimiter: str, *, is_quoted: bool, strips: bool) -> None:
        self.delimiter = delimiter
        self.is_quoted = is_quoted
        self.strips = strips
        self.body = Word((), 1, 1)


class Arrow(NamedTuple):
    """A redirection as it is read, before its here-document is."""

    number: str
    operator: str
    target: Word
    document: Document | None

    def redirection(self) -> Redirection:
        """Return it with its here-document, once that has been read."""
        return Redirection(
            self.number, self.operator, self.target, None if self.document is None else self.document.body
        )


Token = str | Word | Arrow


class ScriptReader:
    """Reads a text from `offset` on, up to an unmatched closing parenthesis, or to its end."""

    def __init__(self, text: str, offset: int = 0, depth: int = 0, starts: Sequence[int] | None = None) -> None:
        self._text = text
        self.offset = offset
        self._depth = depth
        self._starts = starts or [0, *(found.end() for found in re.finditer("\n", text))]
        self._documents: list[Document] = []

    def tokens(self, *, is_inner: bool = False) -> list[Token]:
        """Return words, redirections and operators; with `is_inner`, those of a substitution, and pass its end."""
        found: list[Token] = []
        open_ = 0
        is_case = 0
        while self.offset < len(self._text):
            token = self._token()
            if token is None:
                continue
            found.append(token)
            if isinstance(token, Word):
                is_case += {"case": 1, "esac": -1}.get(token.text, 0)
            open_ += (token == "(") - (token == ")")
            if is_inner and open_ < 0:
                if is_case <= 0:
                    found.pop()
                    break
                open_ = 0  # it ends a pattern
        return found

    def _token(self) -> Token | None:
        char = self._text[self.offset]
        if char in " \t\r":
            self.offset += 1
            return None
        if self._text.startswith("\\\n", self.offset):
            self.offset += 2
            return None
        if char == "#":
            end = self._text.find("\n", self.offset)
            self.offset = len(self._text) if end < 0 else end
            return None
        if self._text.startswith(("<(", ">("), self.offset):
            return self._word()
        operator = _OPERATOR.match(self._text, self.offset)
        if operator is None:
            return self._word()
        self.offset = operator.end()
        if "<" in operator[0] or (">" in operator[0]):
            return self._arrow(operator[0])
        if operator[0] == "\n":
            self._read_documents()
        return operator[0]

    def _arrow(self, written: str) -> Arrow:
        operator = written.lstrip("0123456789")
        while self.offset < len(self._text) and self._text[self.offset] in " \t":
            self.offset += 1
        start = self.offset
        target = self._word()
        document = None
        if operator in ("<<", "<<-"):
            is_quoted = any(mark in self._text[start : self.offset] for mark in "'\"\\")
            document = Document(target.text, is_quoted=is_quoted, strips=operator == "<<-")
            self._documents.append(document)
        return Arrow(written[: len(written) - len(operator)], operator, target, document)

    def _read_documents(self) -> None:
        """Read the here-documents that begin on the line that has just ended."""
        documents, self._documents = self._documents, []
        for document in documents:
            start = end = self.offset
            while self.offset < len(self._text):
                end = self.offset
                stop = self._text.find("\n", self.offset)
                stop = len(self._text) if stop < 0 else stop
                line = self._text[self.offset : stop]
                self.offset = min(stop + 1, len(self._text))
                if (line.lstrip("\t") if document.strips else line) == document.delimiter:
                    break
                end = self.offset
            body = self._text[start:end]
            if document.strips:
                body = re.sub(r"^\t+", "", body, flags=re.M)
            parts = (WordPart(LITERAL, body, True),) if document.is_quoted else self._quoted(body)
            document.body = Word(parts, *self._line_and_column(start))

    def _quoted(self, text: str) -> tuple[WordPart, ...]:
        """Return the parts of a text in double quotes, or read as if it were."""
        if "$" not in text and "`" not in text and "\\" not in text:
            return (WordPart(LITERAL, text, True),)
        inner = ScriptReader(text, 0, self._depth + 1)
        parts: list[WordPart] = []
        while inner.offset < len(text):
            parts.append(inner.inside_quotes(""))
        return tuple(parts)

    def _line_and_column(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    # ------------------------------------------------------------------------------------------------- words

    def _word(self) -> Word:
        """Read one word; at the end of the text, or at an operator, it is empty."""
        start, parts = self.offset, list[WordPart]()
        while self.offset < len(self._text):
            if self._text[self.offset] in _END and not self._text.startswith(("<(", ">("), self.offset):
                break
            if self._text[self.offset] in "<>" and parts:
                break
            parts += self._piece()
        return Word(tuple(parts), *self._line_and_column(start))

    def _piece(self) -> list[WordPart]:
        text, start = self._text, self.offset
        char = text[start]
        if char == "'":
            return [WordPart(LITERAL, self._upto("'", start + 1), True)]
        if char == '"':
            return self._double_quoted()
        if char == "\\":
            self.offset += 2
            kept = text[start + 1 : start + 2]
            return [WordPart(LITERAL, "" if kept == "\n" else kept, True)]
        if char in "<>":
            self.offset += 2
            self._tokens_inside()
            return [WordPart(UNKNOWN, text[start : self.offset])]
        if char in "$`":
            return [self._expanded(is_quoted=False)]
        braces = _BRACES.match(text, start) if char == "{" else None
        plain = None if char == "{" else _PLAIN.match(text, start)
        found = braces or plain
        self.offset = found.end() if found else start + 1
        is_expanded = braces is not None and ("," in braces[0] or ".." in braces[0])
        return [WordPart(UNKNOWN if is_expanded else LITERAL, text[start : self.offset])]

    def _upto(self, mark: str, start: int) -> str:
        end = self._text.find(mark, start)
        end = len(self._text) if end < 0 else end
        self.offset = min(end + 1, len(self._text))
        return self._text[start:end]

    def _double_quoted(self) -> list[WordPart]:
        self.offset += 1
        parts = [WordPart(LITERAL, "", True)]
        while self.offset < len(self._text) and self._text[self.offset] != '"':
            parts.append(self.inside_quotes('"'))
        self.offset = min(self.offset + 1, len(self._text))
        return parts

    def inside_quotes(self, mark: str) -> WordPart:
        """Read a piece of quoted text up to `mark`; without a mark it is a here-document."""
        text, start = self._text, self.offset
        char = text[start]
        if char == "\\" and text[start + 1 : start + 2] in tuple("$`\\\n" + mark):
            self.offset += 2
            return WordPart(LITERAL, text[start + 1].strip("\n"), True)
        if char in "$`":
            return self._expanded(is_quoted=True)
        self.offset += 1
        while self.offset < len(text) and text[self.offset] not in "\\$`" and text[self.offset] != mark:
            self.offset += 1
        return WordPart(LITERAL, text[start : self.offset], True)

    def _expanded(self, *, is_quoted: bool) -> WordPart:
        text, start = self._text, self.offset
        if text[start] == "`":
            inner = self._upto("`", start + 1)
            return self._substitution(start, self._script(re.sub(r"\\([$`\\])", r"\1", inner)), is_quoted=is_quoted)
        if text.startswith("$'", start) and not is_quoted:
            return self._escaped()
        if text.startswith('$"', start) and not is_quoted:
            self.offset += 1
            return WordPart(LITERAL, "", True)
        if text.startswith("$((", start):
            self.offset += 1
            self._skip("(", ")")
            return WordPart(UNKNOWN, text[start : self.offset], is_quoted)
        if text.startswith("$(", start):
            self.offset += 2
            return self._substitution(start, self._tokens_inside(), is_quoted=is_quoted)
        if text.startswith("${", start):
            self.offset += 1
            self._skip("{", "}")
            return self._braces(text[start : self.offset], is_quoted=is_quoted)
        name = _NAME.match(text, start + 1)
        if name is None:
            self.offset = start + 1
            return WordPart(LITERAL, "$", is_quoted)
        word = name[0][0] if name[0][0].isdigit() else name[0]
        self.offset = start + 1 + len(word)
        return WordPart(PARAMETER, f"${word}", is_quoted, word)

    def _substitution(self, start: int, body: tuple[Token, ...], *, is_quoted: bool) -> WordPart:
        return WordPart(COMMAND, self._text[start : self.offset], is_quoted, body=body)

    def _tokens_inside(self) -> tuple[Token, ...]:
        """Read a substitution from after its parenthesis to its end."""
        if self._depth >= DEPTH:
            self.offset -= 1
            self._skip("(", ")")
            return ()
        inner = ScriptReader(self._text, self.offset, self._depth + 1, self._starts)
        tokens = inner.tokens(is_inner=True)
        self.offset = inner.offset
        return tuple(tokens)

    def _script(self, text: str) -> tuple[Token, ...]:
        return () if self._depth >= DEPTH else tuple(ScriptReader(text, 0, self._depth + 1).tokens())

    def _escaped(self) -> WordPart:
        start = self.offset + 2
        end = start
        while end < len(self._text) and self._text[end] != "'":
            end += 2 if self._text[end] == "\\" else 1
        self.offset = min(end + 1, len(self._text))
        return WordPart(LITERAL, dollar_quoted(self._text[start:end]), True)

    def _braces(self, written: str, *, is_quoted: bool) -> WordPart:
        found = _IN_BRACES.fullmatch(written[2:-1]) if written.endswith("}") else None
        if found is None:
            return WordPart(UNKNOWN, written, is_quoted)
        default: tuple[WordPart, ...] = ()
        if found[2]:
            default = self._default(found[3], is_quoted=is_quoted)
        return WordPart(PARAMETER, written, is_quoted, found[1], found[2] or "", default)

    def _default(self, text: str, *, is_quoted: bool) -> tuple[WordPart, ...]:
        if self._depth >= DEPTH:
            return (WordPart(UNKNOWN, text, is_quoted),)
        if is_quoted:
            return self._quoted(text)
        inner = ScriptReader(text, 0, self._depth + 1)
        parts: list[WordPart] = []
        while inner.offset < len(text):
            if text[inner.offset] in _END:
                parts.append(WordPart(LITERAL, text[inner.offset]))
                inner.offset += 1
            else:
                parts += inner._piece()
        return tuple(parts)

    def _skip(self, opening: str, closing: str) -> None:
        """Pass the text from one mark, which is here, to the other, including quoted text."""
        text, depth = self._text, 0
        while self.offset < len(text):
            char = text[self.offset]
            if char == "'" and opening == "(":
                self._upto("'", self.offset + 1)
                continue
            self.offset += 2 if char == "\\" else 1
            depth += (char == opening) - (char == closing)
            if not depth:
                break
        self.offset = min(self.offset, len(text))
