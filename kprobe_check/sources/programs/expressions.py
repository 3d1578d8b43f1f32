"""The expressions of a program in Go, C, C++, Rust or Perl that are texts.

Known are literals, texts joined by +, a dot or nothing, formatted texts, and names by their last binding.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kprobe_check.sources.programs.literals import MARK, NAME, RUST, STRING, Lexeme
from kprobe_check.sources.programs.tree import (
    ENDS,
    WORDS,
    Group,
    Item,
    Tree,
    is_link,
    plain,
    position_of,
    shown,
    split_commas,
)
from kprobe_check.sources.texts import Text, plus, unknown

_FORMATS = re.compile(
    r"(?i)(?:.*printf|.*sprint|errorf|format|format!|.*format|write!|writeln!|concat!|dprintf|append_to_file)"
)
_WRAPS = frozenset(
    [
        *("byte", "str", "string", "String", "from", "c_str", "new", "as_bytes", "to_string", "into", "data", "strdup"),
        *("std", "encode", "StringPiece", "join", "Join", "into_bytes", "format_args", "CString", "u8"),
    ]
)
_SAME = frozenset(
    [
        *("as_bytes", "c_str", "data", "to_string", "as_str", "clone", "into_bytes", "to_owned", "bytes", "trim"),
        *("String", "Bytes", "as_ref"),
    ]
)
_JOINS = frozenset(["Join", "join", "path"])
_VERB = re.compile(r"%[-#0 +']*+(?:\d++|\*)?(?:\.(?:\d++|\*))?(?:hh|h|ll|l|j|z|t|L)?([A-Za-z%])")
_FIELD = re.compile(r"\{\{|\}\}|\{(\w*)(:[^{}]*)?\}")
_BREAKS = frozenset(["-", "/", "%", "!", "<", ">", "^", "|", "?"])  # no text is made with them
_DEPTH = 20
_LONGEST = 400  # items of an expression


class Expressions(Tree):
    """A program's tree, and the values of its expressions."""

    def __init__(self, tokens: Sequence[Lexeme], language: str) -> None:
        self.taken: set[int] = set()  # positions of strings that are parts of a text, or formats
        self._texts: dict[tuple[int, int], Text | None] = {}
        super().__init__(tokens, language)

    def text_of(self, items: Sequence[Item], offset: int) -> Text:
        """Return the text of an expression; if unknown, its code."""
        return self.text(items, offset) or unknown("{" + shown(items) + "}", position_of(items))

    def text(self, items: Sequence[Item], offset: int, depth: int = 0, *, marks: bool = True) -> Text | None:
        """Return the text of an expression; None unless some part is a text."""
        if depth > _DEPTH or not items or len(items) > _LONGEST:
            return None
        key = (items[0].offset, len(items))
        if key not in self._texts:
            self._texts[key] = None  # for a name that is bound to itself
            self._texts[key] = self._joined(items, offset, depth, marks=marks)
        return self._texts[key]

    def _joined(self, items: Sequence[Item], offset: int, depth: int, *, marks: bool) -> Text | None:
        found: Text | None = None
        is_text = False
        index = 0
        strings: list[int] = []
        while index < len(items):
            item = items[index]
            if isinstance(item, Lexeme) and item.kind == MARK:
                index += 1
                if item.value.text in ENDS:
                    return None
                if item.value.text in _BREAKS:
                    break
                continue
            if isinstance(item, Lexeme) and item.kind == STRING:
                strings.append(item.offset)
            index, text_of = self._operand(items, index, offset, depth)
            if text_of is not None:
                is_text = is_text or text_of.text not in text_of.unknowns
                found = text_of if found is None else plus(found, text_of)
        if found is None or not is_text:
            return None
        if marks:
            self.taken.update(strings[1:])
        return found

    def _operand(self, items: Sequence[Item], index: int, offset: int, depth: int) -> tuple[int, Text | None]:
        """Return what follows an operand (a string, name, call or group), and its text."""
        item = items[index]
        if isinstance(item, Group):
            if item.mark == "format":
                return index + 1, self.formatted(split_commas(item.items), offset, depth)
            return index + 1, self.text(item.items, offset, depth + 1) if item.mark == "(" else None
        if item.kind == STRING:
            return index + 1, self._interpolated(item.value, offset, depth) if item.value.unknowns else item.value
        end, name = _qualified_name(items, index)
        last = re.split(r"\.|::|->", name)[-1]
        following = items[end] if end < len(items) else None
        if isinstance(following, Group) and following.mark in "([{":
            return end + 1, self._called(last, split_commas(following.items), offset, depth, name)
        if name in WORDS or name.isdigit():
            return end, None
        return end, self._named(name, last, offset, depth)

    def _called(self, last: str, given: list[list[Item]], offset: int, depth: int, name: str) -> Text | None:
        if last == "concat!":
            found = Text("")
            for one in given:
                found = plus(found, self.text(one, offset, depth + 1) or unknown("{" + shown(one) + "}"))
            return found
        if _FORMATS.fullmatch(last) and given:
            first = next((index for index, one in enumerate(given) if self._is_form(one, offset, depth)), None)
            return None if first is None else self.formatted(given[first:], offset, depth)
        if last in _JOINS and len(given) > 1:
            found = Text("")
            for index, one in enumerate(given):
                found = plus(found, Text("/" if index else ""))
                found = plus(found, self.text(one, offset, depth + 1) or unknown("{" + shown(one) + "}"))
            return found
        if last in _SAME and not given and name != last:
            on = re.sub(r"(?:\.|::|->)\w+\Z", "", name)
            return self._named(on, re.split(r"\.|::|->", on)[-1], offset, depth)
        if last in _WRAPS:
            return self.text(given[0], offset, depth + 1) if given else None
        return unknown("{" + name + "()}")

    def _is_form(self, items: Sequence[Item], offset: int, depth: int) -> bool:
        text_of = self.text(items, offset, depth + 1, marks=False)
        return text_of is not None and (
            "%" in text_of.text
            or "{" in text_of.text
            or bool(items and isinstance(items[0], Lexeme) and items[0].kind == STRING)
        )

    def _named(self, name: str, last: str, offset: int, depth: int) -> Text | None:
        bound = self.bindings(name, offset) or self.bindings(last, offset)
        if len(bound) == 1:
            text_of = self.text(
                bound[0], bound[0][0].offset if self.enclosing_blocks(bound[0][0].offset) else offset, depth + 1
            )
            if text_of is not None and text_of.text not in text_of.unknowns:
                return text_of
        return unknown(name if name.startswith("$") else "{" + name + "}")

    def _interpolated(self, text_of: Text, offset: int, depth: int) -> Text:
        """Return a text of Perl with its known variables replaced."""
        for name in text_of.unknowns:
            plain = "$" + name.strip("${} ")
            bound = self.bindings(plain, offset) if name[0] == "$" else []
            value = self.text(bound[0], offset, depth + 1) if len(bound) == 1 else None
            if value is not None and not value.unknowns:
                left = tuple(one for one in text_of.unknowns if one != name)
                text_of = text_of._replace(text=text_of.text.replace(name, value.text), unknowns=left)
        return text_of

    def formatted(self, given: Sequence[list[Item]], offset: int, depth: int = 0) -> Text | None:
        """Return a format with its values filled in; None if unknown."""
        form = self.text(given[0], offset, depth + 1)
        if form is None:
            return None
        self._take(given[0], offset, depth)
        if self.language == RUST:
            return self._fields(form, list(given[1:]), offset, depth)
        values = list(given[1:])
        found, end = Text("", form.unknowns, form.position, rows=form.rows), 0
        for verb in _VERB.finditer(form.text):
            found = plus(found, Text(form.text[end : verb.start()]))
            end = verb.end()
            if verb[1] == "%":
                found = plus(found, Text("%"))
                continue
            found = plus(found, self._value(verb[0], values.pop(0) if values else None, offset, depth))
        return plus(found, Text(form.text[end:]))

    def _fields(self, form: Text, values: list[list[Item]], offset: int, depth: int) -> Text:
        found, end, index = Text("", (), form.position, rows=form.rows), 0, 0
        for field in _FIELD.finditer(form.text):
            found = plus(found, Text(form.text[end : field.start()]))
            end = field.end()
            if field[0] in ("{{", "}}"):
                found = plus(found, Text(field[0][0]))
                continue
            if not field[1] or field[1].isdigit():
                number = int(field[1]) if field[1] else index
                index += not field[1]
                found = plus(
                    found, self._value(field[0], values[number] if number < len(values) else None, offset, depth)
                )
            else:
                text_of = self._named(field[1], field[1], offset, depth)
                found = plus(found, text_of or unknown(field[0]))
        return plus(found, Text(form.text[end:]))

    def _value(self, verb: str, items: list[Item] | None, offset: int, depth: int) -> Text:
        if items is None:
            return unknown(verb)
        text_of = self.text(items, offset, depth + 1)
        isplain = re.fullmatch(r"%[svq]|%\w*s|\{\w*\}", verb) is not None and verb != "%q"
        if text_of is not None and not text_of.unknowns and isplain:
            return Text(text_of.text)
        number = shown(items)
        if re.fullmatch(r"\d+", number) and verb in ("%d", "%u", "%v", "%i", "{}"):
            return Text(number)
        return unknown("{" + number + "}")

    def _take(self, items: Sequence[Item], offset: int, depth: int) -> None:
        """Note the strings of a format: none of them is written unchanged."""
        for _ in range(_DEPTH):
            self.taken.update(item.offset for item in items if isinstance(item, Lexeme) and item.kind == STRING)
            name = plain(items)
            bound = self.bindings(name, offset) if name else []
            if len(bound) != 1:
                return
            items = bound[0]


def _qualified_name(items: Sequence[Item], index: int) -> tuple[int, str]:
    """Return what follows a name, and the qualified name: a.b, a::b, a->b, a!"""
    pieces: list[str] = []
    while index < len(items):
        item = items[index]
        if not isinstance(item, Lexeme) or item.kind == STRING or (item.kind == MARK and not is_link(item)):
            break
        if pieces and item.kind == NAME and pieces[-1] not in (".", "::", "->"):
            break
        pieces.append(item.value.text)
        index += 1
    following = items[index] if index < len(items) else None
    if isinstance(following, Lexeme) and following.value.text == "!" and pieces:
        pieces.append("!")
        index += 1
    return index, "".join(pieces)
