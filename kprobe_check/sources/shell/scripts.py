"""Statements in a shell script, by this rule:

- the output of `echo`, `printf`, `cat` or a here-document to a file of a tracefs that takes definitions, filters or
  triggers: by a redirection, its own or that of a group, loop or function around it, by `exec`, or through `tee` and
  `dd`; the last parts of its path identify the file;
- an opening of a file of definitions with `>`, which removes all probes in it;
- the definition and the filter of a command `kprobe`;
- all of that in a script that a shell is given: `sudo sh -c 'echo … > …/kprobe_events'`, `ssh`, `adb shell`, `eval`;
- any other word that is a whole definition with a name and a place: `PROBE='p:myopen do_sys_openat2'`.

Variables, arguments of functions and lists of loops are known as far as the script itself contains them.  What is
unknown can't be asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from kprobe_check.sources.lists import begins_statement, is_definitions, is_file, written
from kprobe_check.sources.openings import truncation
from kprobe_check.sources.shell import words
from kprobe_check.sources.shell.expansion import Choice, Elements, Scope, Value
from kprobe_check.sources.shell.grammar import nodes, script
from kprobe_check.sources.shell.outputs import clear, printed_lines, traced, unknown_output
from kprobe_check.sources.shell.syntax import (
    ARRAY,
    CHOICE,
    EACH,
    FUNCTION,
    GROUP,
    LOOP,
    Command,
    Compound,
    Node,
    Pipeline,
    Redirection,
    Word,
    WordPart,
)
from kprobe_check.sources.texts import Text, unknown
from kprobe_check.statement import Position, Statement, definition, looks_like_definition, without_doubles

_DEPTH = 5  # nested scripts
_CALLS = 12  # nested function calls
_STEPS = 20_000  # commands that are followed; after that, functions and loops aren't entered
_ITEMS = 200  # of a loop
_BRANCHES = 8
_NESTED = 3  # nested command substitutions
_LONGEST = 1 << 14  # characters of a variable's value: values are built from values


class Target(list[Text]):
    """Where a command's output goes: a file of a tracefs, or, with an empty path, this list."""

    def __init__(self, path: str = "") -> None:
        super().__init__()
        self.path = path


class Streams:
    """A command's input, and the targets of its output and of its other descriptors."""

    def __init__(self, out: tuple[Target, ...] = (), read: tuple[Text, ...] | None = None) -> None:
        self.out = out
        self.read = read
        self.others: dict[str, tuple[Target, ...]] = {}

    def copy(self) -> Streams:
        """Return the same, to be changed for one command."""
        new = Streams(self.out, self.read)
        new.others = dict(self.others)
        return new


def statements_in(text: str, source: str, depth: int = 0) -> list[Statement]:
    """Return the statements of a shell script; `depth` is the number of scripts around it."""
    return _Walker(source, depth, is_bash=_is_bash(text)).run(text)


def inside(text: str, position: Position, depth: int = 0) -> list[Statement]:
    """Return the statements of a script inside another source; its first line begins at `position`."""
    return _placed(statements_in(text, position.source, depth + 1), position)


def _placed(statements: Iterable[Statement], position: Position) -> list[Statement]:
    return [
        one._replace(
            position=position._replace(line=position.line + one.position.line - 1, column=one.position.column)
            if one.position.line > 1
            else position
        )
        for one in statements
    ]


def _is_bash(text: str) -> bool | None:
    """Return whether bash certainly reads a script: its echo and printf differ from those of other shells."""
    first = text.partition("\n")[0]
    return bool(re.search(r"\bbash\b", first)) if first.startswith("#!") else None


class _Walker:
    """Follows a script, and notes its writes."""

    def __init__(self, source: str, depth: int, *, is_bash: bool | None) -> None:
        self._source = source
        self._depth = depth
        self._is_bash = is_bash
        self._scope = Scope(source, self._output)
        self._functions: dict[str, Compound] = {}
        self._called: set[str] = set()
        self._calls = 0
        self._nested = 0
        self._steps = 0
        self._keys = 0
        self._grown: set[str] = set()  # variables that are appended to: an assignment isn't their full value
        self._statements: dict[Statement, bool] = {}  # and whether it is certainly written

    def run(self, text: str, read: tuple[Text, ...] | None = None) -> list[Statement]:
        """Return a script's statements; a mere word is left out where it is also written."""
        each = script(text)
        self._grown = set(words.grown(each))
        self._walk_all(each, Streams(read=read))
        for name in [name for name in self._functions if name not in self._called]:
            self._scope.arguments = None
            self._walk_all(self._functions[name].bodies[0], Streams())
        return without_doubles(self._statements)

    def _add(self, statements: Iterable[Statement], *, is_certain: bool = True) -> None:
        for one in statements:
            self._statements[one] = self._statements.get(one, False) or is_certain

    # ------------------------------------------------------------------------------------------------- nodes

    def _walk_all(self, each: Iterable[Node], streams: Streams) -> None:
        for node in each:
            self._walk(node, streams)

    def _walk(self, node: Node, streams: Streams) -> None:
        if isinstance(node, Command):
            self._command(node, streams)
        elif isinstance(node, Pipeline):
            self._pipeline(node, streams)
        elif node.kind == FUNCTION:
            self._functions[node.name] = node
            self._called.discard(node.name)
        else:
            inner = self._redirected(node.redirections, streams, {}) if node.redirections else streams
            self._compound(node, inner)

    def _pipeline(self, node: Pipeline, streams: Streams) -> None:
        before, read = self._scope.variables, streams.read
        for index, stage in enumerate(node.stages):
            self._scope.variables = dict(before)
            inner = streams.copy()
            inner.read = read
            pipe = Target()
            if index + 1 < len(node.stages):
                inner.out = (pipe,)
            self._walk(stage, inner)
            read = tuple(pipe)
        self._scope.variables = before

    def _compound(self, node: Compound, streams: Streams) -> None:
        if node.kind == GROUP:
            before = dict(self._scope.variables)
            self._walk_all(node.bodies[0], streams)
            if node.is_apart:
                self._scope.variables = before
        elif node.kind in (LOOP, EACH):
            listed = None if node.words is None or self._steps >= _STEPS else self._items(node.words)
            if listed is None:
                self._repeat(node, streams)
            for item in listed or ():
                self._scope.variables[node.name] = item
                self._walk_all(node.bodies[0], streams)
        else:
            bodies = node.bodies if node.kind == CHOICE else (*node.bodies, ())
            self._choose(bodies, streams)

    def _items(self, listed: Sequence[Word]) -> list[Text] | None:
        """Return the items of a loop; None if unknown: files, and expansions by the shell."""
        items = [item for word in listed for item in self._scope.fields(word)]
        is_known = len(items) <= _ITEMS and not any(item.text in item.unknowns or _is_pattern(item) for item in items)
        return items if is_known else None

    def _repeat(self, node: Compound, streams: Streams) -> None:
        """Follow a loop with an unknown number of runs: the variables that it assigns are unknown."""
        names = set(words.assigned(node.bodies[0])) | ({node.name} if node.name else set())
        self._scope.forget(names)
        self._walk_all(node.bodies[0], streams)
        self._scope.forget(names)

    def _choose(self, bodies: Sequence[Sequence[Node]], streams: Streams) -> None:
        before = self._scope.variables
        after: list[dict[str, Value]] = []
        for body in bodies:
            self._scope.variables = dict(before)
            self._walk_all(body, streams)
            after.append(self._scope.variables)
        self._keys += 1
        names = {name for one in after for name in one if one[name] is not before.get(name)}
        self._scope.variables = dict(before)
        if len(bodies) > _BRANCHES:
            self._scope.forget(names)
            return
        for name in names:
            values = tuple(one.get(name) for one in after)
            first = values[0]
            same = first is not None and all(value == first for value in values)
            self._scope.variables[name] = first if same and first is not None else Choice(self._keys, values)

    # ------------------------------------------------------------------------------------------------- redirections

    def _redirected(self, redirections: Iterable[Redirection], streams: Streams, picks: Mapping[int, int]) -> Streams:
        new = streams.copy()
        for one in redirections:
            if one.body is not None:
                new.read = (self._scope.expanded(one.body, picks),)
            elif one.operator == "<<<":
                new.read = (self._scope.expanded(one.target, picks),)
            elif one.operator in (">&", "<&"):
                there = new.others.get(one.target.text, () if one.target.text != "1" else new.out)
                self._direct(new, one.number, there)
            elif one.operator == "<":
                new.read = (unknown(f"< {one.target.text}", self._scope.position(one.target)),)
            elif one.operator != "<>":
                path = self._scope.expanded(one.target, picks)
                self._direct(new, one.number, self._opened(path, is_truncated=one.operator in (">", ">|", "&>")))
        return new

    def _direct(self, streams: Streams, number: str, where: tuple[Target, ...]) -> None:
        if number in ("", "1"):
            streams.out = where
        else:
            streams.others[number] = where

    def _opened(
        self, path: Text, *, is_truncated: bool, shown: str = "> {}", instead: str = ">> {}"
    ) -> tuple[Target, ...]:
        if not is_file(path.text):
            return ()
        if is_truncated and is_definitions(path.text):
            self._add([truncation(path.text, path.position, shown.format(path.text), instead.format(path.text))])
        return (Target(path.text),)

    # ------------------------------------------------------------------------------------------------- commands

    def _command(self, command: Command, streams: Streams) -> None:
        self._steps += 1
        bare = words.without_assignments(command.words)
        for word in command.words[: len(command.words) - len(bare)]:
            self._assign(word)
        targets = [one.body or one.target for one in command.redirections]
        for picks in self._scope.combinations([*command.words, *targets]):
            inner = self._redirected(command.redirections, streams, picks)
            fields = [field for word in bare for field in self._scope.fields(word, picks)]
            expanded = words.bare(fields)
            if not expanded:
                if bare and not streams.out and words.is_exec(fields):
                    streams.out, streams.others = inner.out, inner.others
                continue
            name = expanded[0].text.rpartition("/")[2]
            is_taken = self._run(name, expanded, inner, is_shell=words.reads_script(fields))
            if not is_taken:
                self._loose(list(bare), picks)

    def _assign(self, word: Word) -> None:
        name, plus, value = words.assignment(word)
        if name not in self._grown:
            self._loose([value])
        if value.parts and value.parts[0].kind == ARRAY:
            elements = value.parts[0].elements
            self._loose(elements)
            each = self._scope.assigned(
                value, lambda picks: Elements(tuple(f for one in elements for f in self._scope.fields(one, picks)))
            )
        else:
            each = self._scope.assigned(value, lambda picks: self._kept(name, self._scope.expanded(value, picks)))
        if plus:
            old = self._scope.variables.get(name, Text(""))
            each = _appended(old, each) or unknown(f"${name}")
        self._scope.variables[name] = each

    def _kept(self, name: str, value: Text) -> Text:
        return value if len(value.text) <= _LONGEST else unknown(f"${name}")

    def _run(self, name: str, command: list[Text], streams: Streams, *, is_shell: bool) -> bool:
        """Follow one command, and return whether its words need no further reading."""
        if name == "kprobe":
            self._add(traced(command))
            return True
        if name in words.DECLARING:
            return False
        if name in self._functions:
            self._call(name, command[1:], streams)
            return False
        if name in ("echo", "printf"):
            self._print(printed_lines(name, command, is_bash=self._is_bash), streams.out)
            return bool(streams.out)
        given = words.script(name, command[1:])
        if given is None and (name in words.SHELLS or is_shell) and streams.read is not None and self._depth < _DEPTH:
            given = streams.read[0] if len(streams.read) == 1 else None
        if given is not None and self._depth < _DEPTH:
            self._inner(given, streams, is_same=name == "eval")
            return True
        return self._copied(name, command, streams)

    def _copied(self, name: str, command: list[Text], streams: Streams) -> bool:
        """Follow a command that copies its input, or one with unknown output."""
        if name in ("tee", "dd"):
            is_adding = words.is_adding(name, command[1:])
            each = words.files(name, command[1:])
            form = ("tee {}", "tee -a {}") if name == "tee" else ("dd of={}", "dd oflag=append conv=notrunc of={}")
            targets = [
                target
                for path in each
                for target in self._opened(path, is_truncated=not is_adding, shown=form[0], instead=form[1])
            ]
            self._print(streams.read or (), (*targets, *streams.out))
            if targets and streams.read is None:
                self._print([unknown_output(command)], tuple(targets))
            return bool(targets)
        if name == "cat" and all(field.text == "-" or field.text.startswith("-") for field in command[1:]):
            self._print((unknown_output(command),) if streams.read is None else streams.read, streams.out)
            return bool(streams.out)
        if name not in words.SILENT and streams.out:
            self._print([unknown_output(command)], streams.out)
        for path, given in (*pairwise(command), *pairwise(reversed(command))):
            if is_definitions(path.text) and begins_statement(given.text):
                if "^" in given.text:
                    given = given._replace(unknowns=("^",), because=f"no kernel takes the ^, which {name} may take out")
                self._print([given], (Target(path.text),))
                return True
        return False

    def _print(self, texts: Iterable[Text], targets: Iterable[Target]) -> None:
        lines = list(texts)
        for target in targets:
            if not target.path:
                target.extend(lines)
                continue
            for one in lines:
                if one.because and "prints" in one.because and "events" not in target.path:
                    continue
                each = written(target.path, one.text, one.position)
                self._add([clear(statement, one) for statement in each])

    def _call(self, name: str, arguments: list[Text], streams: Streams) -> None:
        self._called.add(name)
        if self._calls >= _CALLS or self._steps >= _STEPS:
            return
        before, self._scope.arguments = self._scope.arguments, tuple(arguments)
        self._calls += 1
        function = self._functions[name]
        self._walk_all(function.bodies[0], self._redirected(function.redirections, streams, {}))
        self._calls -= 1
        self._scope.arguments = before

    def _inner(self, given: Text, streams: Streams, *, is_same: bool) -> None:
        """Follow a script among a shell's words."""
        walker = _Walker(self._source, self._depth + 1, is_bash=self._is_bash if is_same else None)
        if is_same:
            walker._scope.variables = dict(self._scope.variables)
        self._add(clear(one, given) for one in _placed(walker.run(given.text, streams.read), given.position))

    def _output(self, part: WordPart) -> str | None:
        """Return the output of a substituted command; None if unknown."""
        pipe = Target()
        if self._steps >= _STEPS or self._nested >= _NESTED:
            return None
        self._nested += 1
        before = self._scope.variables
        self._scope.variables = dict(before)
        self._walk_all(nodes(part.body, _CALLS), Streams((pipe,)))
        self._scope.variables = before
        self._nested -= 1
        if not part.body or any(one.unknowns for one in pipe):
            return None
        return "\n".join(one.text for one in pipe).rstrip("\n")

    def _loose(self, each: Iterable[Word], picks: Mapping[int, int] | None = None) -> None:
        """Note words that are complete definitions."""
        for word in each:
            literal = next((part.text for part in word.parts if part.text), "")
            if not literal or (literal[0] not in "prefst$ \t\n" and not words.holds_assignment(word)):
                continue
            word = words.assignment(word)[2] if words.holds_assignment(word) else word
            for chosen in self._scope.combinations([word]) if picks is None else [picks]:
                said = self._scope.expanded(word, chosen)
                if looks_like_definition(said.text, said.unknowns):
                    one = definition(said.text.strip(), said.position)
                    self._add([clear(one, said)], is_certain=False)


def _is_pattern(item: Text) -> bool:
    return re.search(r"(?:^|/)[^\s/:]*[*?]", item.text) is not None


def _appended(old: Value, new: Value) -> Value | None:
    if isinstance(old, Elements) and isinstance(new, Elements):
        return Elements(old.texts + new.texts)
    if isinstance(old, Text) and isinstance(new, Text):
        return new._replace(text=old.text + new.text, unknowns=old.unknowns + new.unknowns)
    return None
