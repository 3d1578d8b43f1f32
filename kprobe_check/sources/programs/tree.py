"""The expressions of a program in Go, C, C++, Rust or Perl that are texts, from its tokens.

Brackets make groups; commas, semicolons and the like separate expressions.  Known are literals, texts joined by +, a
dot or nothing, formatted texts, and names by their last binding.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kprobe_check.sources.programs.literals import GO, MARK, NAME, PERL, STRING, Lexeme
from kprobe_check.sources.texts import Text
from kprobe_check.statement import Position

_OPENING = {"(": ")", "[": "]", "{": "}", "${": "}", "@{": "}", "%{": "}"}
ENDS = frozenset(
    [",", ";", "=", ":=", "==", "!=", "?", "||", "&&", "=>", "<<", ">>", "return", "\n", "+=", ".=", "or", "and"]
)
WORDS = frozenset(
    ["return", "or", "and", "if", "unless", "else", "in", "case", "my", "our", "let", "mut", "const", "static", "var"]
)
_BINDS_BY_CALL = {
    "snprintf": (0, 2),
    "sprintf": (0, 1),
    "asprintf": (0, 1),
    "strcpy": (0, 1),
    "vsnprintf": (0, 2),
    "xasprintf": (0, 1),
}
_DEPTH = 60  # nested brackets
_FAR = 60  # items that are searched for a name, or for its value
_NEAR = 12  # items after a name of Perl within which a relevant call has a string
_BOUND = 50  # bindings of a name that are considered


class Group(NamedTuple):
    """The items between brackets."""

    mark: str
    items: list[Item]
    offset: int


Item = Lexeme | Group


class Called(NamedTuple):
    """A call: the full name, its last part, the arguments, and where it begins."""

    qualified_name: str
    name: str
    given: list[list[Item]]
    offset: int
    on: list[Item]
    position: Position


class Tree:
    """A program's items, and its names."""

    def __init__(self, tokens: Sequence[Lexeme], language: str) -> None:
        self.language = language
        self._bound: dict[str, list[tuple[int, tuple[int, ...], list[Item]]]] = {}
        self._blocks: dict[int, tuple[int, ...]] = {}
        self.expressions: list[list[Item]] = []
        self.calls: list[Called] = []
        self.assigned: dict[int, list[str]] = {}  # where a call stands, and the names that its result is bound to
        self._read(_grouped(_ended(tokens, language)))

    # ------------------------------------------------------------------------------------------------- reading

    def _read(self, items: list[Item]) -> None:
        queue: list[tuple[list[Item], tuple[int, ...]]] = [(items, ())]
        for each, blocks in queue:
            self._split(each, blocks)
            for item in each:
                if isinstance(item, Group):
                    queue.append(
                        (item.items, (*blocks, item.offset) if item.mark == "{" and len(blocks) < 40 else blocks)
                    )
        self.calls.sort(key=lambda one: one.offset)
        for each_bound in self._bound.values():
            each_bound.sort(key=lambda one: one[0])

    def _split(self, items: list[Item], blocks: tuple[int, ...]) -> None:
        start = 0
        for index, item in enumerate([*items, None]):
            ends = item is None or (isinstance(item, Lexeme) and item.kind != STRING and item.value.text in ENDS)
            if not ends:
                continue
            expression = items[start:index]
            start = index + 1
            if expression and any(isinstance(one, Group) or one.kind != MARK for one in expression):
                self.expressions.append(expression)
                self._blocks[expression[0].offset] = blocks
            if isinstance(item, Lexeme) and item.value.text in ("=", ":="):
                self._bind(items, index, blocks)
        for index, item in enumerate(items):
            if isinstance(item, Group) and item.mark in "([{" and index:
                call = _call(items, index)
                if call is not None:
                    self._note_call(call, blocks)
            elif self.language == PERL and isinstance(item, Lexeme) and item.kind == NAME:
                call = _bare_call(items, index)
                if call is not None:
                    self._note_call(call, blocks)

    def _note_call(self, call: Called, blocks: tuple[int, ...]) -> None:
        self.calls.append(call)
        self._blocks[call.offset] = blocks
        binds = _BINDS_BY_CALL.get(call.name)
        if binds is not None and len(call.given) > binds[1]:
            name = plain(call.given[binds[0]])
            inner: list[Item] = [Group("format", _comma(call.given[binds[1] :]), call.offset)]
            if name:
                self._bound.setdefault(name, []).append((call.offset, blocks, inner))

    def _bind(self, items: list[Item], index: int, blocks: tuple[int, ...]) -> None:
        left: list[Item] = []
        for item in reversed(items[max(0, index - _FAR) : index]):
            if isinstance(item, Lexeme) and item.value.text in (";", "\n", "=", ":="):
                break
            left.append(item)
        left.reverse()
        name = _bound_name(left)
        right: list[Item] = []
        for item in items[index + 1 : index + 1 + _FAR]:
            if isinstance(item, Lexeme) and item.kind == MARK and item.value.text in (";", ",", "\n"):
                break
            right.append(item)
        if name and right:
            self._bound.setdefault(name, []).append((items[index].offset, blocks, right))
            for one in right:
                if isinstance(one, Lexeme) and one.kind == NAME:
                    self.assigned.setdefault(one.offset, []).append(name)

    def bindings(self, name: str, offset: int) -> list[list[Item]]:
        """Return the possible values of a name at a position: its last binding, and those in branches since."""
        every = self._bound.get(name, [])
        past = bisect_left(every, offset, key=lambda one: one[0])
        each = every[max(0, past - _BOUND) : past + 1]
        here = self.enclosing_blocks(offset)
        found: list[list[Item]] = []
        for where, blocks, items in each:
            if where >= offset and found:
                break
            if where >= offset and (blocks or len(every) > 1):
                break
            if here[: len(blocks)] == blocks:
                found = [items]
            elif blocks[:1] == here[:1]:
                found.append(items)
        return found[-8:]

    def enclosing_blocks(self, offset: int) -> tuple[int, ...]:
        return self._blocks.get(offset, ())


def _ended(tokens: Sequence[Lexeme], language: str) -> list[Lexeme]:
    """Return the tokens without line ends; in Go, with those that end statements."""
    found: list[Lexeme] = []
    for token in tokens:
        if token.kind == MARK and token.value.text == "\n":
            last = found[-1] if found else None
            if language != GO or last is None or (last.kind == MARK and last.value.text not in (")", "]", "}")):
                continue
        found.append(token)
    return found


def _grouped(tokens: Sequence[Lexeme]) -> list[Item]:
    stack: list[tuple[str, list[Item], int]] = [("", [], 0)]
    for token in tokens:
        mark = token.value.text if token.kind == MARK or token.value.text in ("${", "@{", "%{") else ""
        if token.kind != STRING and mark in _OPENING and len(stack) < _DEPTH:
            stack.append((mark, [], token.offset))
        elif token.kind != STRING and mark in (")", "]", "}") and len(stack) > 1:
            opening, items, offset = stack.pop()
            stack[-1][1].append(Group(opening, items, offset))
        else:
            stack[-1][1].append(token)
    while len(stack) > 1:
        opening, items, offset = stack.pop()
        stack[-1][1].append(Group(opening, items, offset))
    return stack[0][1]


def _call(items: Sequence[Item], index: int) -> Called | None:
    """Return the call whose arguments are the group at an index; None if there is none."""
    group = items[index]
    assert isinstance(group, Group)
    offset = index - 1
    is_macro = isinstance(items[offset], Lexeme) and items[offset].value.text == "!" and offset > 0  # type: ignore[union-attr]
    offset -= is_macro
    first = items[offset]
    if not isinstance(first, Lexeme) or first.kind != NAME or (group.mark != "(" and not is_macro):
        return None
    name = first.value.text + "!" * is_macro
    start = offset
    while start >= 2 and is_link(items[start - 1]):
        before = items[start - 2]
        start -= 2
        while isinstance(before, Group) and start > 0:
            start -= 1
            before = items[start]
        if not isinstance(before, Lexeme) or before.kind != NAME:
            break
    on = list(items[start : offset - 1]) if start < offset else []
    qualified_name = "".join(item.value.text for item in items[start : offset + 1] if isinstance(item, Lexeme))
    return Called(qualified_name, name, split_commas(group.items), first.offset, on, first.value.position)


def _bare_call(items: Sequence[Item], index: int) -> Called | None:
    """Return a call of Perl without parentheses: a name and what follows it up to the end of the statement."""
    item = items[index]
    following = items[index + 1] if index + 1 < len(items) else None
    if not isinstance(item, Lexeme) or item.value.text[0] in "$@%" or item.value.text in WORDS:
        return None
    if not isinstance(following, Lexeme) or (following.kind == MARK) or following.value.text in ("my", "our"):
        return None
    if not any(isinstance(one, Lexeme) and one.kind == STRING for one in items[index + 1 : index + _NEAR]):
        return None
    given: list[Item] = []
    for one in items[index + 1 : index + 1 + _FAR]:
        if (
            isinstance(one, Lexeme)
            and one.kind != STRING
            and one.value.text in (";", "or", "and", "||", "&&", "if", "unless", "for", "foreach")
        ):
            break
        given.append(one)
    return Called(item.value.text, item.value.text, split_commas(given), item.offset, [], item.value.position)


def split_commas(items: Sequence[Item]) -> list[list[Item]]:
    found: list[list[Item]] = [[]]
    for item in items:
        if isinstance(item, Lexeme) and item.kind == MARK and item.value.text in (",", "=>"):
            found.append([])
        else:
            found[-1].append(item)
    return [one for one in found if one]


def _comma(each: Sequence[list[Item]]) -> list[Item]:
    mark = Lexeme(MARK, Text(","), 0)
    found: list[Item] = []
    for index, items in enumerate(each):
        found += [mark, *items] if index else items
    return found


def _bound_name(left: Sequence[Item]) -> str:
    """Return the name before an equals sign: the last one, before a type or brackets; the first of several."""
    tokens: list[Lexeme] = []
    for item in left:
        if isinstance(item, Group):
            continue
        tokens.append(item)
    words = [one.value.text for one in tokens]
    if "," in words:
        words = words[: words.index(",")]
    if ":" in words:
        words = words[: words.index(":")]
    names = [word for word in words if re.fullmatch(r"[$@%]?\w+", word) and word not in WORDS]
    if names and words and words[0] in ("const", "var") and len(names) > 1 and names[-1] in ("string", "byte"):
        return names[0]
    return names[-1] if names else ""


def is_link(item: Item) -> bool:
    return isinstance(item, Lexeme) and item.kind == MARK and item.value.text in (".", "::", "->")


def plain(items: Sequence[Item]) -> str:
    """Return the name, "" if the expression is more than a name."""
    words = [
        item for item in items if not (isinstance(item, Lexeme) and item.value.text in ("&", "*", "mut", "my", "our"))
    ]
    first = words[0] if len(words) == 1 else None
    return first.value.text if isinstance(first, Lexeme) and first.kind == NAME else ""


def shown(items: Sequence[Item]) -> str:
    """Return an expression's code, shortened."""
    pieces: list[str] = []
    for item in _flat(items):
        pieces.append(f'"{item.value.text}"' if item.kind == STRING else item.value.text.strip())
        if len(pieces) > 40:
            break
    return "".join(pieces)


def _flat(items: Sequence[Item]) -> Iterator[Lexeme]:
    stack: list[Item] = list(reversed(items))
    while stack:
        item = stack.pop()
        if isinstance(item, Lexeme):
            yield item
        else:
            stack.append(Lexeme(MARK, Text(_OPENING.get(item.mark, ")")), item.offset))
            stack += reversed(item.items)
            stack.append(Lexeme(MARK, Text(item.mark if item.mark in _OPENING else "("), item.offset))


def strings(items: Sequence[Item]) -> list[Lexeme]:
    """Return the strings of an expression, including those in its groups."""
    return [one for one in _flat(items) if one.kind == STRING]


def position_of(items: Sequence[Item]) -> Position:
    return next((one.value.position for one in _flat(items) if one.value.position.line), Position())
