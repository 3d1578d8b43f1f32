"""Statements in programs in Go, C, C++, Rust and Perl, by the rule for Python:

- text written to a file of a tracefs that takes definitions, filters or triggers: to an open file, or by a function
  that is given the path and the text;
- an opening of a file of definitions that empties it (`os.Create`, `File::create`, O_TRUNC, fopen's "w"), or that fails
  (fopen's "a", which seeks to the end);
- strings that are a shell command which writes to such a file;
- any other string each of whose lines is a definition with a name and a place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from kprobe_check.sources.lists import begins_statement, is_definitions, is_file, placed, written
from kprobe_check.sources.openings import appending, truncation
from kprobe_check.sources.programs.commands import command, is_command
from kprobe_check.sources.programs.expressions import Expressions
from kprobe_check.sources.programs.literals import GO, PERL, RUST, STRING, C, Lexeme, tokens
from kprobe_check.sources.programs.tree import Called, Item, shown, strings
from kprobe_check.sources.texts import Text, unclear
from kprobe_check.statement import Statement, definition, looks_like_definition, without_doubles

_MAY = re.compile(r"(?:kprobe|uprobe|dynamic|synthetic)_events|/filter|/trigger|[preft]\d*:[\w%{$-]")
# of a name, wherever it is in it
_WRITES = re.compile(r"(?i)write|print|puts|append|echo|save|send|put|add|set|tee|<<")
_READS = re.compile(
    r"(?i)read|scan|err|(?:path|sn?printf)\Z"
    r"|\A(?:f?open|(?:l?stat|access|exists|close|remove|unlink|join|fdopen|getline|format!?)\Z)"
)
_SAYS = re.compile(
    r"(?i)(?:.*log|.*debug|info|warn(?:ing)?|error|fatal|panic|die|croak|confess|perror|usage|record_info|errx?|warnx?)"
    r"(?:f|ln|!)*|eprint(?:ln)?!"
)
_PRINTS = re.compile(r"(?i)print(?:ln|f)?!?|puts")
_STDOUT = re.compile(r"fmt\.Print\w*")
_FIELD = re.compile(r"%[-#0 +]*+\d*+(?:l|ll|z|h)?[sdxXucrfvq](?!\w)|\{[\w:#?]*\}")
_COMPOSED = re.compile(r"x+\d*:[\w/.]+ \S[^\n]*\n?")  # all of a definition but its colon is formatted in
_NAMING = re.compile(r"(?i)probe|event|ret|kind|type|prefix|sym|func")
_CREATES = frozenset(["Create", "create", "creat", "WriteFile"])
_INSTEAD = {
    GO: "os.OpenFile(…, os.O_WRONLY|os.O_APPEND, 0)",
    C: "open(…, O_WRONLY | O_APPEND)",
    RUST: "OpenOptions::new().append(true).open(…)",
    PERL: "open(…, '>>', …)",
}
_SHOWN = 60


def statements_in(text: str, source: str, language: str) -> list[Statement]:
    """Return the statements of a program.  Raise `literals.MissingLibrary`."""
    each = tokens(text if _MAY.search(text) else "", language, source)
    return _SourceReader(Expressions(each, language), language).statements()


class _SourceReader:
    def __init__(self, tree: Expressions, language: str) -> None:
        self._tree = tree
        self._language = language
        self._statements: dict[Statement, bool] = {}
        self._handles: dict[str, list[tuple[int, Text]]] = {}
        self._messages: set[int] = set()  # positions of strings that are only messages to people

    def statements(self) -> list[Statement]:
        """Return the statements in the order of the source."""
        for call in self._tree.calls:
            self._open(call)
        for call in self._tree.calls:
            self._write(call)
        for expression in self._tree.expressions:
            if any(isinstance(item, Lexeme) and item.kind == STRING for item in strings(expression)):
                self._tree.text(expression, expression[0].offset)  # so that strings that are parts of it are known
        for expression in self._tree.expressions:
            self._loose(expression)
        return sorted(without_doubles(self._statements), key=lambda one: (one.position.line, one.position.column))

    def _add(self, each: Iterable[Statement], value: Text, *, is_certain: bool = True) -> None:
        for one in each:
            clear = unclear(one, value)
            self._statements[clear] = self._statements.get(clear, False) or is_certain

    # ------------------------------------------------------------------------------------------------- files

    def _paths(self, call: Called) -> Iterator[tuple[int, Text]]:
        """Yield a call's arguments that are paths of files of a tracefs."""
        for index, one in enumerate(call.given):
            for value in self._each(one, call.offset):
                path = value._replace(text=value.text.lstrip("+<> "))
                if " " not in path.text and is_file(path.text):
                    yield index, path

    def _each(self, items: Sequence[Item], offset: int) -> list[Text]:
        """Return the possible expressions: for a name, all that may be bound to it."""
        name = _name(items)
        bound = self._tree.bindings(name, offset) if name else []
        if len(bound) > 1:
            return [self._tree.text_of(one, one[0].offset) for one in bound]
        value = self._tree.text(items, offset)
        return [] if value is None else [value]

    def _open(self, call: Called) -> None:
        for index, path in self._paths(call):
            handle = self._handle(call, index)
            for name in handle:
                self._handles.setdefault(name, []).append((call.offset, path))
            if is_definitions(path.text):
                self._opening(call, index, path)
            break

    def _handle(self, call: Called, index: int) -> list[str]:
        """Return the names of the file that a call opens: the variable assigned, or its first argument."""
        names = list(self._tree.assigned.get(call.offset, ()))
        if self._language == C:
            names.append(call.name)  # std::ofstream events("…")
        if self._language == PERL and call.name == "open" and index:
            first = [item for item in call.given[0] if isinstance(item, Lexeme)]
            names += [first[-1].value.text] if first else []
        return names

    def _opening(self, call: Called, index: int, path: Text) -> None:
        position = call.position
        first = next(iter(self._each(call.given[index], call.offset)), Text("")).text
        modes = [one.value.text for given in call.given for one in strings(given)]
        flags = " ".join(shown(one) for one in call.given)
        is_lost = (
            call.name in _CREATES
            or (call.qualified_name.endswith("fs::write") and self._language == RUST)
            or "O_TRUNC" in flags
            or (call.name == "fopen" and any(mode.startswith("w") for mode in modes[-1:]))
            or (
                self._language == PERL
                and call.name == "open"
                and (">" in modes or re.match(r"\+?>(?!>)", first) is not None)
            )
        )
        seeks = call.name == "fopen" and bool(modes) and modes[-1].startswith("a") and "+" not in modes[-1]
        if not is_lost and not seeks:
            return
        written_as = f"{call.qualified_name}({', '.join(shown(one) for one in call.given)})"
        written_as = written_as if len(written_as) <= _SHOWN else f"{written_as[: _SHOWN - 1]}…"
        make = appending if seeks else truncation
        self._add([make(path.text, position, written_as, _INSTEAD[self._language])], Text(""))

    def _opened(self, items: Sequence[Item], offset: int) -> Text | None:
        """Return the path of the file that an expression means."""
        name = _name(items)
        each = [path for where, path in self._handles.get(name, []) if where < offset]
        return each[-1] if each else None

    # ------------------------------------------------------------------------------------------------- writes

    def _write(self, call: Called) -> None:
        if self._is_message(call):
            self._messages.update(one.offset for given in call.given for one in strings(given))
            return
        if not _WRITES.search(call.name) or _READS.search(call.name):
            self._paired(call)
            return
        path = self._opened(call.on, call.offset) if call.on else None
        if path is not None and call.given:
            self._note(path, call.given, call)
            return
        given = self._perl_given(call)
        path = self._opened(given[0], call.offset) if given else None
        if path is not None and len(given) > 1:
            self._note(path, given[1:], call)
            return
        path = self._opened(given[-1], call.offset) if given else None
        if path is not None and len(given) > 1:
            self._note(path, given[:1], call)
            return
        self._paired(call)

    def _is_message(self, call: Called) -> bool:
        """Return whether a call's arguments are only messages to people."""
        if call.name == "fprintf":
            return shown(call.given[0]) == "stderr" if call.given else False
        if _PRINTS.fullmatch(call.name):
            to_file = any(self._opened(one, call.offset) for one in call.given[:1])
            return _STDOUT.fullmatch(call.qualified_name) is not None or not (
                call.on or to_file or self._language == PERL
            )
        return _SAYS.fullmatch(call.name) is not None

    def _perl_given(self, call: Called) -> list[list[Item]]:
        """Return the arguments; in Perl, a file before them without a comma is returned separately."""
        given = call.given
        if (
            self._language == PERL
            and given
            and len(given[0]) > 1
            and self._opened(given[0][:1], call.offset) is not None
        ):
            return [given[0][:1], given[0][1:], *given[1:]]
        return given

    def _paired(self, call: Called) -> None:
        """Note the other arguments of a function that is given the path of a file."""
        if len(call.given) < 2:
            return
        is_writing = _WRITES.search(call.name) is not None and not _READS.search(call.name)
        for index, path in self._paths(call):
            for other in (index + 1, index - 1):
                if not 0 <= other < len(call.given):
                    continue
                value = self._tree.text(call.given[other], call.offset)
                begins = value is not None and begins_statement(value.text) and is_definitions(path.text)
                whole = is_writing and other > index and ("/" in path.text or is_definitions(path.text))
                if (begins and not _READS.search(call.name)) or (
                    whole and not re.fullmatch(r"\d+", shown(call.given[other]))
                ):
                    self._note(path, call.given[other:] if other > index else call.given[other : other + 1], call)
                    return

    def _note(self, path: Text, given: Sequence[list[Item]], call: Called) -> None:
        name = _name(given[0])
        if re.search(r"(?i)printf|write(?:ln)?!|format", call.name):
            value = self._tree.formatted(given, call.offset)
            each = [value] if value is not None else [self._tree.text_of(given[0], call.offset)]
        else:
            each = self._each(given[0], call.offset) or [self._tree.text_of(given[0], call.offset)]
        for one in each:
            if not one.position.line:
                one = one._replace(position=call.position)
            if name and one.text in one.unknowns:
                one = one._replace(position=call.position)
            is_on_one_line = one.rows < one.text.rstrip("\n").count("\n")
            self._add(written(path.text, one.text, one.position, is_on_one_line=is_on_one_line), one)
        self._tree.taken.update(one.offset for items in given for one in strings(items))

    # ------------------------------------------------------------------------------------------------- the rest

    def _loose(self, expression: Sequence[Item]) -> None:
        first = next((one for one in expression if isinstance(one, Lexeme) and one.kind == STRING), None)
        each = [expression] if first is not None else []
        for items in each:
            assert first is not None
            if first.offset in self._tree.taken or first.offset in self._messages:
                continue
            value = self._tree.text(items, items[0].offset)
            if value is None:
                continue
            value = value._replace(unknowns=tuple(dict.fromkeys([*value.unknowns, *_FIELD.findall(value.text)])))
            self._add_loose(value)
        for call in () if first is not None else self._formats(expression):
            self._add_loose(call)

    def _formats(self, expression: Sequence[Item]) -> Iterator[Text]:
        value = self._tree.text(expression, expression[0].offset)
        inner = strings(expression)
        if value is not None and value.unknowns and inner and inner[0].offset not in self._messages:
            yield value

    def _add_loose(self, value: Text) -> None:
        if is_command(value.text):
            self._add(command(value), value, is_certain=False)
            return
        is_on_one_line = value.rows < value.text.rstrip("\n").count("\n")
        lines = placed(value.text, value.position, is_on_one_line=is_on_one_line)
        if _is_composed(value):
            self._add([definition(value.text.strip(), value.position)], value, is_certain=False)
        elif lines and all(looks_like_definition(line, value.unknowns) for line, _ in lines):
            self._add([definition(line.strip(), there) for line, there in lines], value, is_certain=False)


def _is_composed(value: Text) -> bool:
    """Return whether a text is a definition with not even its kind in the program."""
    text = value.text
    for one in value.unknowns:
        text = text.replace(one, "x")
    return bool(value.unknowns) and _COMPOSED.fullmatch(text) is not None and _NAMING.search(value.text) is not None


def _name(items: Sequence[Item]) -> str:
    """Return the last part of a name, "" if the expression is more than a name."""
    words = [
        item for item in items if not (isinstance(item, Lexeme) and item.value.text in ("&", "*", "mut", "my", "."))
    ]
    if not words or not all(isinstance(item, Lexeme) and item.kind != STRING for item in words):
        return ""
    last = words[-1]
    return last.value.text if isinstance(last, Lexeme) and re.search(r"\w", last.value.text) else ""
