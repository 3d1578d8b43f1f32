"""The expressions of a program in Go, C, C++, Rust or Perl that are texts, from its tokens.

Brackets make groups; what stands between commas, semicolons and the like is an expression.  Known are literals, what is
joined by +, a dot or nothing, what is formatted, and names by what was last bound to them before.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import NamedTuple

from kprobe.check.literals import GO, MARK, NAME, PERL, RUST, STRING, Token
from kprobe.check.statements import Position
from kprobe.check.texts import Text, plus, unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_OPENING = {"(": ")", "[": "]", "{": "}", "${": "}", "@{": "}", "%{": "}"}
_ENDS = frozenset(
    [",", ";", "=", ":=", "==", "!=", "?", "||", "&&", "=>", "<<", ">>", "return", "\n", "+=", ".=", "or", "and"]
)
_WORDS = frozenset(
    ["return", "or", "and", "if", "unless", "else", "in", "case", "my", "our", "let", "mut", "const", "static", "var"]
)
_FORMATS = re.compile(
    r"(?i)(?:.*printf|.*sprint|errorf|format|format!|.*format|write!|writeln!|concat!|dprintf|append_to_file)"
)
_WRAPS = frozenset(
    "byte str string String from c_str new as_bytes to_string into data strdup std encode StringPiece join Join into_bytes "
    "format_args CString u8".split()
)
_SAME = frozenset(
    "as_bytes c_str data to_string as_str clone into_bytes to_owned bytes trim String Bytes as_ref".split()
)
_JOINS = frozenset(["Join", "join", "path"])
_VERB = re.compile(r"%[-#0 +']*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|j|z|t|L)?([A-Za-z%])")
_FIELD = re.compile(r"\{\{|\}\}|\{(\w*)(:[^{}]*)?\}")
_BINDS_BY_CALL = {
    "snprintf": (0, 2),
    "sprintf": (0, 1),
    "asprintf": (0, 1),
    "strcpy": (0, 1),
    "vsnprintf": (0, 2),
    "xasprintf": (0, 1),
}
_BREAKS = frozenset(["-", "/", "%", "!", "<", ">", "^", "|", "?"])  # no text is made with them
_DEPTH = 20
_FAR = 60  # items that are looked at for a name, or what a name is given
_BOUND = 50  # bindings of a name that are looked at


class Group(NamedTuple):
    """What stands between brackets."""

    mark: str
    items: list[Item]
    at: int


Item = Token | Group


class Call(NamedTuple):
    """A call: the whole name of what is called, its last part, what is given, and where it begins."""

    whole: str
    name: str
    given: list[list[Item]]
    at: int
    on: list[Item]
    position: Position


class Tree:
    """A program's items, and its names."""

    def __init__(self, tokens: Sequence[Token], language: str) -> None:
        self.language = language
        self.taken: set[int] = set()  # where strings stand that are parts of a text, or that something is put into
        self._bound: dict[str, list[tuple[int, tuple[int, ...], list[Item]]]] = {}
        self._blocks: dict[int, tuple[int, ...]] = {}
        self.expressions: list[list[Item]] = []
        self.calls: list[Call] = []
        self.assigned: dict[int, list[str]] = {}  # where a call stands, and the names that its result is bound to
        self._read(_grouped(_ended(tokens, language)))

    # ------------------------------------------------------------------------------------------------- reading

    def _read(self, items: list[Item]) -> None:
        queue: list[tuple[list[Item], tuple[int, ...]]] = [(items, ())]
        for each, blocks in queue:
            self._split(each, blocks)
            for item in each:
                if isinstance(item, Group):
                    queue.append((item.items, (*blocks, item.at) if item.mark == "{" and len(blocks) < 40 else blocks))
        self.calls.sort(key=lambda one: one.at)
        for each_bound in self._bound.values():
            each_bound.sort(key=lambda one: one[0])

    def _split(self, items: list[Item], blocks: tuple[int, ...]) -> None:
        start = 0
        for index, item in enumerate([*items, None]):
            ends = item is None or (isinstance(item, Token) and item.kind != STRING and item.value.text in _ENDS)
            if not ends:
                continue
            expression = items[start:index]
            start = index + 1
            if expression and any(isinstance(one, Group) or one.kind != MARK for one in expression):
                self.expressions.append(expression)
                self._blocks[expression[0].at] = blocks
            if isinstance(item, Token) and item.value.text in ("=", ":="):
                self._bind(items, index, blocks)
        for index, item in enumerate(items):
            if isinstance(item, Group) and item.mark in "([{" and index:
                call = _call(items, index)
                if call is not None:
                    self._note_call(call, blocks)
            elif self.language == PERL and isinstance(item, Token) and item.kind == NAME:
                call = _bare_call(items, index)
                if call is not None:
                    self._note_call(call, blocks)

    def _note_call(self, call: Call, blocks: tuple[int, ...]) -> None:
        self.calls.append(call)
        self._blocks[call.at] = blocks
        binds = _BINDS_BY_CALL.get(call.name)
        if binds is not None and len(call.given) > binds[1]:
            name = _plain(call.given[binds[0]])
            inner: list[Item] = [Group("format", _comma(call.given[binds[1] :]), call.at)]
            if name:
                self._bound.setdefault(name, []).append((call.at, blocks, inner))

    def _bind(self, items: list[Item], index: int, blocks: tuple[int, ...]) -> None:
        left: list[Item] = []
        for item in reversed(items[max(0, index - _FAR) : index]):
            if isinstance(item, Token) and item.value.text in (";", "\n", "=", ":="):
                break
            left.append(item)
        left.reverse()
        name = _bound_name(left)
        right: list[Item] = []
        for item in items[index + 1 : index + 1 + _FAR]:
            if isinstance(item, Token) and item.kind == MARK and item.value.text in (";", ",", "\n"):
                break
            right.append(item)
        if name and right:
            self._bound.setdefault(name, []).append((items[index].at, blocks, right))
            for one in right:
                if isinstance(one, Token) and one.kind == NAME:
                    self.assigned.setdefault(one.at, []).append(name)

    def bindings(self, name: str, at: int) -> list[list[Item]]:
        """Return what a name may stand for at a place: what was last bound to it before, and in branches since."""
        every = self._bound.get(name, [])
        past = bisect_left(every, at, key=lambda one: one[0])
        each = every[max(0, past - _BOUND) : past + 1]
        here = self._place(at)
        found: list[list[Item]] = []
        for where, blocks, items in each:
            if where >= at and found:
                break
            if where >= at and (blocks or len(every) > 1):
                break
            if here[: len(blocks)] == blocks:
                found = [items]
            elif blocks[:1] == here[:1]:
                found.append(items)
        return found[-8:]

    def _place(self, at: int) -> tuple[int, ...]:
        return self._blocks.get(at, ())

    # ------------------------------------------------------------------------------------------------- texts

    def said(self, items: Sequence[Item], at: int) -> Text:
        """Return the text of an expression at a place; of one that isn't known, how it is written."""
        return self.text(items, at) or unknown("{" + shown(items) + "}", _position(items))

    def text(self, items: Sequence[Item], at: int, depth: int = 0, *, marks: bool = True) -> Text | None:
        """Return the text of an expression; None if none of its parts is a text."""
        if depth > _DEPTH:
            return None
        found: Text | None = None
        is_text = False
        index = 0
        strings: list[int] = []
        while index < len(items):
            item = items[index]
            said: Text | None = None
            if isinstance(item, Token) and item.kind == MARK:
                index += 1
                if item.value.text in _ENDS:
                    return None
                if item.value.text in _BREAKS:
                    break
                continue
            if isinstance(item, Token) and item.kind == STRING:
                said = self._interpolated(item.value, at, depth) if item.value.unknowns else item.value
                strings.append(item.at)
                index += 1
            elif isinstance(item, Group) and item.mark == "format":
                said = self.formatted(_split_commas(item.items), at, depth)
                index += 1
            else:
                index, said = self._operand(items, index, at, depth)
            if said is None:
                continue
            is_text = is_text or said.text not in said.unknowns
            found = said if found is None else plus(found, said)
        if found is None or not is_text:
            return None
        if marks:
            self.taken.update(strings[1:])
        return found

    def _operand(self, rest: Sequence[Item], index: int, at: int, depth: int) -> tuple[int, Text | None]:
        """Return what follows an operand that is a name, a call or a group, and its text."""
        item = rest[index]
        if isinstance(item, Group):
            inner = self.text(item.items, at, depth + 1) if item.mark == "(" else None
            return index + 1, inner
        end = index + 1
        name = item.value.text
        while (
            end + 1 < len(rest)
            and _is_link(rest[end])
            and isinstance(rest[end + 1], Token)
            and rest[end + 1].kind == NAME
        ):  # type: ignore[union-attr]
            name += rest[end].value.text + rest[end + 1].value.text  # type: ignore[union-attr]
            end += 2
        last = re.split(r"\.|::|->", name)[-1]
        if end < len(rest) and isinstance(rest[end], Token) and rest[end].value.text == "!":  # type: ignore[union-attr]
            last += "!"
            end += 1
        if end < len(rest) and isinstance(rest[end], Group) and rest[end].mark in "([{":  # type: ignore[union-attr]
            group = rest[end]
            assert isinstance(group, Group)
            return end + 1, self._called(last, _split_commas(group.items), at, depth, name)
        if name in _WORDS or name.isdigit():
            return end, None
        return end, self._named(name, last, at, depth)

    def _called(self, last: str, given: list[list[Item]], at: int, depth: int, name: str) -> Text | None:
        if last == "concat!":
            found = Text("")
            for one in given:
                found = plus(found, self.text(one, at, depth + 1) or unknown("{" + shown(one) + "}"))
            return found
        if _FORMATS.fullmatch(last) and given:
            first = next((index for index, one in enumerate(given) if self._is_form(one, at, depth)), None)
            return None if first is None else self.formatted(given[first:], at, depth)
        if last in _JOINS and len(given) > 1:
            found = Text("")
            for index, one in enumerate(given):
                found = plus(found, Text("/" if index else ""))
                found = plus(found, self.text(one, at, depth + 1) or unknown("{" + shown(one) + "}"))
            return found
        if last in _SAME and not given and name != last:
            on = re.sub(r"(?:\.|::|->)\w+\Z", "", name)
            return self._named(on, re.split(r"\.|::|->", on)[-1], at, depth)
        if last in _WRAPS:
            return self.text(given[0], at, depth + 1) if given else None
        return unknown("{" + name + "()}")

    def _is_form(self, items: Sequence[Item], at: int, depth: int) -> bool:
        said = self.text(items, at, depth + 1, marks=False)
        return said is not None and (
            "%" in said.text
            or "{" in said.text
            or bool(items and isinstance(items[0], Token) and items[0].kind == STRING)
        )

    def _named(self, name: str, last: str, at: int, depth: int) -> Text | None:
        bound = self.bindings(name, at) or self.bindings(last, at)
        if len(bound) == 1:
            said = self.text(bound[0], bound[0][0].at if self._place(bound[0][0].at) else at, depth + 1)
            if said is not None and said.text not in said.unknowns:
                return said
        return unknown(name if name.startswith("$") else "{" + name + "}")

    def _interpolated(self, said: Text, at: int, depth: int) -> Text:
        """Return a text of Perl with the variables that are known put in."""
        for name in said.unknowns:
            plain = "$" + name.strip("${} ")
            bound = self.bindings(plain, at) if name[0] == "$" else []
            value = self.text(bound[0], at, depth + 1) if len(bound) == 1 else None
            if value is not None and not value.unknowns:
                left = tuple(one for one in said.unknowns if one != name)
                said = said._replace(text=said.text.replace(name, value.text), unknowns=left)
        return said

    def formatted(self, given: Sequence[list[Item]], at: int, depth: int = 0) -> Text | None:
        """Return a form with values put in; None if it isn't known."""
        form = self.text(given[0], at, depth + 1)
        if form is None:
            return None
        self._take(given[0], at, depth)
        if self.language == RUST:
            return self._fields(form, list(given[1:]), at, depth)
        values = list(given[1:])
        found, end = Text("", form.unknowns, form.position, rows=form.rows), 0
        for verb in _VERB.finditer(form.text):
            found = plus(found, Text(form.text[end : verb.start()]))
            end = verb.end()
            if verb[1] == "%":
                found = plus(found, Text("%"))
                continue
            found = plus(found, self._value(verb[0], values.pop(0) if values else None, at, depth))
        return plus(found, Text(form.text[end:]))

    def _fields(self, form: Text, values: list[list[Item]], at: int, depth: int) -> Text:
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
                found = plus(found, self._value(field[0], values[number] if number < len(values) else None, at, depth))
            else:
                said = self._named(field[1], field[1], at, depth)
                found = plus(found, said or unknown(field[0]))
        return plus(found, Text(form.text[end:]))

    def _value(self, verb: str, items: list[Item] | None, at: int, depth: int) -> Text:
        if items is None:
            return unknown(verb)
        said = self.text(items, at, depth + 1)
        is_plain = re.fullmatch(r"%[svq]|%\w*s|\{\w*\}", verb) is not None and verb != "%q"
        if said is not None and not said.unknowns and is_plain:
            return Text(said.text)
        number = shown(items)
        if re.fullmatch(r"\d+", number) and verb in ("%d", "%u", "%v", "%i", "{}"):
            return Text(number)
        return unknown("{" + number + "}")

    def _take(self, items: Sequence[Item], at: int, depth: int) -> None:
        """Note the strings of a form: nothing of them is written as it stands."""
        for _ in range(_DEPTH):
            self.taken.update(item.at for item in items if isinstance(item, Token) and item.kind == STRING)
            name = _plain(items)
            bound = self.bindings(name, at) if name else []
            if len(bound) != 1:
                return
            items = bound[0]


def _ended(tokens: Sequence[Token], language: str) -> list[Token]:
    """Return the tokens without the ends of lines; in Go, where they end statements, with those that do."""
    found: list[Token] = []
    for token in tokens:
        if token.kind == MARK and token.value.text == "\n":
            last = found[-1] if found else None
            if language != GO or last is None or (last.kind == MARK and last.value.text not in (")", "]", "}")):
                continue
        found.append(token)
    return found


def _grouped(tokens: Sequence[Token]) -> list[Item]:
    stack: list[tuple[str, list[Item], int]] = [("", [], 0)]
    for token in tokens:
        mark = token.value.text if token.kind == MARK or token.value.text in ("${", "@{", "%{") else ""
        if token.kind != STRING and mark in _OPENING:
            stack.append((mark, [], token.at))
        elif token.kind != STRING and mark in (")", "]", "}") and len(stack) > 1:
            opening, items, at = stack.pop()
            stack[-1][1].append(Group(opening, items, at))
        else:
            stack[-1][1].append(token)
    while len(stack) > 1:
        opening, items, at = stack.pop()
        stack[-1][1].append(Group(opening, items, at))
    return stack[0][1]


def _call(items: Sequence[Item], index: int) -> Call | None:
    """Return the call whose arguments are the group at an index; None if that is none."""
    group = items[index]
    assert isinstance(group, Group)
    at = index - 1
    is_macro = isinstance(items[at], Token) and items[at].value.text == "!" and at > 0  # type: ignore[union-attr]
    at -= is_macro
    first = items[at]
    if not isinstance(first, Token) or first.kind != NAME or (group.mark != "(" and not is_macro):
        return None
    name = first.value.text + "!" * is_macro
    start = at
    while start >= 2 and _is_link(items[start - 1]):
        before = items[start - 2]
        start -= 2
        while isinstance(before, Group) and start > 0:
            start -= 1
            before = items[start]
        if not isinstance(before, Token) or before.kind != NAME:
            break
    on = list(items[start : at - 1]) if start < at else []
    whole = "".join(item.value.text for item in items[start : at + 1] if isinstance(item, Token))
    return Call(whole, name, _split_commas(group.items), first.at, on, first.value.position)


def _bare_call(items: Sequence[Item], index: int) -> Call | None:
    """Return a call of Perl without parentheses: a name and what follows it up to the end of the statement."""
    item = items[index]
    following = items[index + 1] if index + 1 < len(items) else None
    if not isinstance(item, Token) or item.value.text[0] in "$@%" or item.value.text in _WORDS:
        return None
    if not isinstance(following, Token) or (following.kind == MARK) or following.value.text in ("my", "our"):
        return None
    given: list[Item] = []
    for one in items[index + 1 : index + 1 + _FAR]:
        if (
            isinstance(one, Token)
            and one.kind != STRING
            and one.value.text in (";", "or", "and", "||", "&&", "if", "unless", "for", "foreach")
        ):
            break
        given.append(one)
    return Call(item.value.text, item.value.text, _split_commas(given), item.at, [], item.value.position)


def _split_commas(items: Sequence[Item]) -> list[list[Item]]:
    found: list[list[Item]] = [[]]
    for item in items:
        if isinstance(item, Token) and item.kind == MARK and item.value.text in (",", "=>"):
            found.append([])
        else:
            found[-1].append(item)
    return [one for one in found if one]


def _comma(each: Sequence[list[Item]]) -> list[Item]:
    mark = Token(MARK, Text(","), 0)
    found: list[Item] = []
    for index, items in enumerate(each):
        found += [mark, *items] if index else items
    return found


def _bound_name(left: Sequence[Item]) -> str:
    """Return the name that stands before an equals sign: the last, before a type or brackets; the first of several."""
    tokens: list[Token] = []
    for item in left:
        if isinstance(item, Group):
            continue
        tokens.append(item)
    words = [one.value.text for one in tokens]
    if "," in words:
        words = words[: words.index(",")]
    if ":" in words:
        words = words[: words.index(":")]
    names = [word for word in words if re.fullmatch(r"[$@%]?\w+", word) and word not in _WORDS]
    if names and words and words[0] in ("const", "var") and len(names) > 1 and names[-1] in ("string", "byte"):
        return names[0]
    return names[-1] if names else ""


def _is_link(item: Item) -> bool:
    return isinstance(item, Token) and item.kind == MARK and item.value.text in (".", "::", "->")


def _plain(items: Sequence[Item]) -> str:
    """Return the name that an expression is, "" if it is more than that."""
    words = [
        item for item in items if not (isinstance(item, Token) and item.value.text in ("&", "*", "mut", "my", "our"))
    ]
    first = words[0] if len(words) == 1 else None
    return first.value.text if isinstance(first, Token) and first.kind == NAME else ""


def shown(items: Sequence[Item]) -> str:
    """Return how an expression is written, in short."""
    pieces: list[str] = []
    for item in _flat(items):
        pieces.append(f'"{item.value.text}"' if item.kind == STRING else item.value.text.strip())
        if len(pieces) > 40:
            break
    return "".join(pieces)


def _flat(items: Sequence[Item]) -> Iterator[Token]:
    stack: list[Item] = list(reversed(items))
    while stack:
        item = stack.pop()
        if isinstance(item, Token):
            yield item
        else:
            stack.append(Token(MARK, Text(_OPENING.get(item.mark, ")")), item.at))
            stack += reversed(item.items)
            stack.append(Token(MARK, Text(item.mark if item.mark in _OPENING else "("), item.at))


def strings(items: Sequence[Item]) -> list[Token]:
    """Return the strings of an expression, those in groups of it too."""
    return [one for one in _flat(items) if one.kind == STRING]


def _position(items: Sequence[Item]) -> Position:
    return next((one.value.position for one in _flat(items) if one.value.position.line), Position())
