"""A shell script's words, commands and redirections, as far as they can be known without running a shell.

Nothing is expanded: a word that holds what only the shell knows (`$NAME`, `` `command` ``) says so.  Any text can be
read; quotes and here-documents that don't end, end with it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_NAME = re.compile(r"\{[^}]*\}?|\w+|[#?@*!$-]")
_OPERATOR = re.compile(r"&>>?|\d*(?:>>|>\||>&|<<-|<<<|<<|<&|<>|>|<)|&&|\|\||\|&|;;|[;&|()\n]")
_END = frozenset(" \t\n;&|()<>")


class Word(NamedTuple):
    """A word; `text` has no quotes, and what is expanded stands in it as it was written.

    `expands` is the first thing that the shell would put something else for, "" if there is none.
    """

    text: str
    line: int
    column: int
    expands: str = ""


class Redirection(NamedTuple):
    """A redirection of a command: the operator without a number, and the file, or the lines of a here-document."""

    operator: str
    target: Word
    body: Word | None = None


class Command(NamedTuple):
    """A simple command; `pipe` says that it reads what the one before it writes."""

    words: tuple[Word, ...]
    redirections: tuple[Redirection, ...]
    is_piped: bool = False


def commands(text: str) -> list[Command]:
    """Return the simple commands of a script, in the order in which they stand in it."""
    return _Reader(text).commands()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._found: list[Command] = []
        self._words: list[Word] = []
        self._redirections: list[Redirection] = []
        self._is_piped = False
        self._documents: list[
            tuple[int, int, Word, bool, str]
        ] = []  # command, redirection, delimiter, quoted, operator
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self._line = 0  # the index of the line that was last looked up

    def commands(self) -> list[Command]:
        while self._at < len(self._text):
            self._step()
        self._end(is_piped=False)
        return self._found

    def _step(self) -> None:
        char = self._text[self._at]
        if char in " \t\r":
            self._at += 1
        elif self._text.startswith("\\\n", self._at):
            self._at += 2
        elif char == "#":
            end = self._text.find("\n", self._at)
            self._at = len(self._text) if end < 0 else end
        else:
            operator = _OPERATOR.match(self._text, self._at)
            if operator is None:
                self._words.append(self._word())
            else:
                self._at = operator.end()
                self._operate(operator[0])

    def _operate(self, operator: str) -> None:
        if "<" in operator or ">" in operator:
            self._redirect(operator.lstrip("0123456789"))
            return
        self._end(is_piped=operator in ("|", "|&"))
        if operator == "\n":
            self._read_documents()

    def _redirect(self, operator: str) -> None:
        while self._at < len(self._text) and self._text[self._at] in " \t":
            self._at += 1
        start = self._at
        target = self._word()
        if operator in ("<<", "<<-"):
            is_quoted = any(mark in self._text[start : self._at] for mark in "'\"\\")
            self._documents.append((len(self._found), len(self._redirections), target, is_quoted, operator))
        self._redirections.append(Redirection(operator, target))

    def _end(self, *, is_piped: bool) -> None:
        if self._words or self._redirections:
            self._found.append(Command(tuple(self._words), tuple(self._redirections), self._is_piped))
        self._words, self._redirections, self._is_piped = [], [], is_piped

    def _read_documents(self) -> None:
        """Read the here-documents that begin on the line that has just ended."""
        documents, self._documents = self._documents, []
        for command, index, delimiter, is_quoted, operator in documents:
            start = self._at
            lines: list[str] = []
            while self._at < len(self._text):
                end = self._text.find("\n", self._at)
                end = len(self._text) if end < 0 else end
                line = self._text[self._at : end]
                self._at = min(end + 1, len(self._text))
                if (line.lstrip("\t") if operator == "<<-" else line) == delimiter.text:
                    break
                lines.append(line)
            body = "\n".join(lines)
            expands = "" if is_quoted else _expansion(body)
            if not is_quoted:
                body = re.sub(r"\\([$`\\])", r"\1", body)
            word = Word(body, *self._place(start), expands)
            whole = self._found[command]
            redirections = list(whole.redirections)
            redirections[index] = redirections[index]._replace(body=word)
            self._found[command] = whole._replace(redirections=tuple(redirections))

    def _place(self, at: int) -> tuple[int, int]:
        while self._line + 1 < len(self._starts) and self._starts[self._line + 1] <= at:
            self._line += 1
        while self._starts[self._line] > at:
            self._line -= 1
        return self._line + 1, at - self._starts[self._line] + 1

    def _word(self) -> Word:
        """Read one word; at the end of the text, or at an operator, it is empty."""
        start, pieces, expands = self._at, list[str](), ""
        while self._at < len(self._text) and self._text[self._at] not in _END:
            piece, expansion = self._piece()
            pieces.append(piece)
            expands = expands or expansion
        return Word("".join(pieces), *self._place(start), expands)

    def _piece(self) -> tuple[str, str]:
        char = self._text[self._at]
        if char == "'":
            return self._upto("'", self._at + 1), ""
        if char == '"':
            return self._double_quoted()
        if char == "\\":
            self._at += 2
            kept = self._text[self._at - 1 : self._at]
            return ("" if kept == "\n" else kept), ""
        if char == "$" or char == "`":
            return self._expanded()
        self._at += 1
        return char, ""

    def _upto(self, mark: str, start: int) -> str:
        end = self._text.find(mark, start)
        end = len(self._text) if end < 0 else end
        self._at = min(end + 1, len(self._text))
        return self._text[start:end]

    def _double_quoted(self) -> tuple[str, str]:
        self._at += 1
        pieces, expands = list[str](), ""
        while self._at < len(self._text) and self._text[self._at] != '"':
            char = self._text[self._at]
            if char == "\\" and self._text[self._at + 1 : self._at + 2] in tuple('$`"\\\n'):
                pieces.append(self._text[self._at + 1].strip("\n"))
                self._at += 2
            elif char in "$`":
                piece, expansion = self._expanded()
                pieces.append(piece)
                expands = expands or expansion
            else:
                pieces.append(char)
                self._at += 1
        self._at = min(self._at + 1, len(self._text))
        return "".join(pieces), expands

    def _expanded(self) -> tuple[str, str]:
        start = self._at
        if self._text[start] == "`":
            self._upto("`", start + 1)
        elif self._text.startswith("$'", start):
            return _escaped(self._upto("'", start + 2)), ""
        elif self._text.startswith("$(", start):
            self._skip_parentheses()
        else:
            name = _NAME.match(self._text, start + 1)
            self._at = name.end() if name else start + 1
            if name is None:
                return "$", ""
        text = self._text[start : self._at]
        return text, text

    def _skip_parentheses(self) -> None:
        self._at += 2
        depth = 1
        while self._at < len(self._text) and depth:
            char = self._text[self._at]
            if char == "'":
                self._upto("'", self._at + 1)
                continue
            depth += (char == "(") - (char == ")")
            self._at += 2 if char == "\\" else 1
        self._at = min(self._at, len(self._text))


def _expansion(text: str) -> str:
    """Return the first thing in a here-document that the shell would put something else for."""
    found = re.search(r"(?<!\\)(?:\$(?:\w+|\{[^}]*\}|\([^)]*\))|`[^`]*`)", text)
    return found[0] if found else ""


def _escaped(text: str) -> str:
    """Return what $'TEXT' means, of the escapes those that definitions can hold."""
    return re.sub(r"\\(.)", lambda found: {"n": "\n", "t": "\t"}.get(found[1], found[1]), text, flags=re.S)
