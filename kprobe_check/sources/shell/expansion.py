"""A shell's expansion of words, as far as the script itself contains their values.

A variable has its last assigned value.  Where branches assign different values it has all of them, and variables of the
same branch stay together; a word tells which of its parts are unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import NamedTuple

from kprobe_check.sources.shell.syntax import ARRAY, COMMAND, LITERAL, PARAMETER, Word, WordPart
from kprobe_check.sources.texts import Text, plus, unknown
from kprobe_check.statement import Position

_COMBINATIONS = 24  # of values; with more, all are unknown
_DEFAULTS = (":-", "-", ":=", "=")


class Choice(NamedTuple):
    """The values of a variable after a choice: one for each branch, None where it is unset."""

    key: int
    values: tuple[Value | None, ...]


class Elements(NamedTuple):
    """The values of an array."""

    texts: tuple[Text, ...]


Value = Text | Choice | Elements
_EMPTY: Mapping[int, int] = {}


class Scope:
    """The variables of a shell and its arguments, None where unknown."""

    def __init__(self, source: str, output: Callable[[WordPart], str | None]) -> None:
        self.source = source
        self.variables: dict[str, Value] = {}
        self.arguments: tuple[Text, ...] | None = None
        self._output = output

    def position(self, word: Word) -> Position:
        """Return a word's position."""
        return Position(self.source, word.line, word.column)

    def forget(self, names: Iterable[str]) -> None:
        """Make variables unknown."""
        self.variables |= {name: unknown(f"${name}") for name in names}

    def combinations(self, words: Iterable[Word]) -> list[Mapping[int, int]]:
        """Return the combinations of branches that words depend on: for each choice the branch."""
        sizes: dict[int, int] = {}
        for word in words:
            for value in self._values(word.parts):
                _collect(value, sizes)
        count = 1
        for size in sizes.values():
            count *= size
        if count > _COMBINATIONS:
            return [_EMPTY]
        return [dict(zip(sizes, picks, strict=True)) for picks in product(*map(range, sizes.values()))]

    def assigned(self, word: Word, value: Callable[[Mapping[int, int]], Value]) -> Value:
        """Return the value of a variable to which a word is assigned, whatever was chosen before."""
        each = self.combinations([word])
        if len(each) < 2:
            return value(each[0])
        keys = list(each[0])
        return _nested(keys, {}, {key: 1 + max(picks[key] for picks in each) for key in keys}, value)

    def _values(self, parts: Iterable[WordPart]) -> Iterator[Value]:
        for part in parts:
            if part.kind == PARAMETER and part.name.partition("[")[0] in self.variables:
                yield self.variables[part.name.partition("[")[0]]
            if part.kind == ARRAY:
                for element in part.elements:
                    yield from self._values(element.parts)
            yield from self._values(part.default)

    # ------------------------------------------------------------------------------------------------- words

    def expanded(self, word: Word, picks: Mapping[int, int] = _EMPTY) -> Text:
        """Return a word expanded, without being split."""
        return self._joined(word.parts, self._origin(word, picks), picks)

    def _origin(self, word: Word, picks: Mapping[int, int]) -> Position:
        """Return the origin of a word's text: for a single parameter, where its value was assigned."""
        parts = [part for part in word.parts if part.text]
        if len(parts) == 1 and parts[0].kind == PARAMETER and not parts[0].operator:
            value = self._value(parts[0].name, picks)
            if value is not None and value.position.line:
                return value.position
        return self.position(word)

    def fields(self, word: Word, picks: Mapping[int, int] = _EMPTY) -> list[Text]:
        """Return the words that a word expands to: none, one, or several."""
        position = self._origin(word, picks)
        found: list[Text] = []
        current = Text("", (), position)
        is_there = False
        for part in word.parts:
            many = self._many(part, picks)
            if many is not None:
                for index, one in enumerate(many):
                    if index:
                        found.append(current)
                        current = Text("", (), position)
                    current = plus(current, one) if current.text else one
                    is_there = True
                continue
            said = self._part(part, picks)
            if part.kind == LITERAL or part.is_quoted or said.unknowns:
                current, is_there = plus(current, said), is_there or bool(said.text) or part.is_quoted
                continue
            pieces = re.split(r"[ \t\n]+", said.text)
            for index, piece in enumerate(pieces):
                if index:
                    if is_there:
                        found.append(current)
                    current, is_there = Text("", (), position), False
                if piece:
                    current, is_there = plus(current, said._replace(text=piece)), True
        return [*found, current] if is_there else found

    def _joined(self, parts: Iterable[WordPart], position: Position, picks: Mapping[int, int]) -> Text:
        found = Text("", (), position)
        for part in parts:
            many = self._many(part, picks)
            for index, one in enumerate([self._part(part, picks)] if many is None else many):
                found = plus(found, Text(" ") if index else Text(""))
                found = plus(found, one)
        return found

    def _many(self, part: WordPart, picks: Mapping[int, int]) -> list[Text] | None:
        """Return the words of "$@" and "${ARRAY[@]}"; None for other parts, and where unknown."""
        if part.kind != PARAMETER or part.operator:
            return None
        if part.name in ("@", "*") and self.arguments is not None:
            return list(self.arguments)
        if part.name.endswith("[@]") or part.name.endswith("[*]"):
            value = self.variables.get(part.name[:-3])
            return list(value.texts) if isinstance(value, Elements) else None
        return None

    def _part(self, part: WordPart, picks: Mapping[int, int]) -> Text:
        if part.kind == LITERAL:
            return Text(part.text)
        if part.kind == COMMAND:
            said = self._output(part)
            return unknown(part.text) if said is None else Text(said)
        if part.kind == PARAMETER:
            return self._parameter(part, picks)
        return unknown(part.text)

    def _parameter(self, part: WordPart, picks: Mapping[int, int]) -> Text:
        value = self._value(part.name, picks)
        operator = part.operator
        if value is not None and value.unknowns and operator:
            return unknown(part.text)
        is_set = value is not None and (bool(value.text) or not operator.startswith(":"))
        if operator in _DEFAULTS and not is_set:
            return self._joined(part.default, Position(), picks)
        if operator in ("+", ":+"):
            if value is None:
                return unknown(part.text)
            return self._joined(part.default, Position(), picks) if is_set else Text("")
        return unknown(part.text) if value is None else value

    def _value(self, name: str, picks: Mapping[int, int]) -> Text | None:
        """Return the value of a parameter; None if the script doesn't contain it, so that it may be unset."""
        if name.isdigit():
            at = int(name) - 1
            if self.arguments is None or at < 0:
                return None
            return self.arguments[at] if at < len(self.arguments) else Text("")
        if name == "#" and self.arguments is not None:
            return Text(str(len(self.arguments)))
        if isinstance(self.variables.get(name), Choice):
            return self._chosen(name, picks)
        value = self.variables.get(name)
        if isinstance(value, Elements):
            return value.texts[0] if value.texts else Text("")
        return value if isinstance(value, Text) else None

    def _chosen(self, name: str, picks: Mapping[int, int]) -> Text | None:
        value = self.variables[name]
        while isinstance(value, Choice):
            chosen = value.values[picks[value.key]] if value.key in picks else unknown(f"${name}")
            if chosen is None:
                return None
            value = chosen
        return value if isinstance(value, Text) else unknown(f"${name}")


def _collect(value: Value | None, sizes: dict[int, int]) -> None:
    if isinstance(value, Choice):
        sizes[value.key] = len(value.values)
        for one in value.values:
            _collect(one, sizes)


def _nested(
    keys: list[int], picks: dict[int, int], sizes: Mapping[int, int], value: Callable[[Mapping[int, int]], Value]
) -> Value:
    if not keys:
        return value(picks)
    first, rest = keys[0], keys[1:]
    each = range(sizes[first])
    return Choice(first, tuple(_nested(rest, {**picks, first: index}, sizes, value) for index in each))
