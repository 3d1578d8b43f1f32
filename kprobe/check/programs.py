"""Statements in Python code, by this rule:

- what a call gives to a file of a tracefs that takes definitions, filters or triggers: the string after its path
  (`write("kprobe_events", b"…")`, `os.write` excepted), or what is written to a file that the call opens
  (`Path(".../filter").write_text("…")`, `open(".../kprobe_events", "a").write("…")`);
- the definition and `filter=` of a call of a method `trace`;
- what a shell is given, as `scripts` says: the first argument of `system`, `run`, `Popen`, `call` and the like;
- any other string each of whose lines is a definition with a name and a place.

A string with replacement fields (`f"p:{name} vfs_read"`) can't be asked.
"""

from __future__ import annotations

import ast
import re
import warnings
from functools import partial

from kprobe.check.lists import is_file, placed, written
from kprobe.check.scripts import inside
from kprobe.check.statements import FILTER, TRIGGER, Position, Statement, definition, looks_like_definition

_PROBE = re.compile(r"\s*[pr]\d*:[\w/]")
_SHELL = frozenset(["system", "popen", "run", "Popen", "call", "check_call", "check_output", "getoutput"])


class NotPython(ValueError):
    """The text can't be read as Python; `line` is where."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def found(text: str, source: str) -> list[Statement]:
    """Return the statements of a Python program.  Raise `NotPython`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the program's own, such as invalid escapes
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NotPython(getattr(error, "msg", None) or str(error), getattr(error, "lineno", None) or 1) from None
    visitor = _Visitor(source, text)
    visitor.run(tree)
    return sorted(visitor.statements, key=lambda one: (one.position.line, one.position.column))


class _Visitor:
    def __init__(self, source: str, text: str) -> None:
        self.statements: list[Statement] = []
        self._lines = re.split("\r\n|\r|\n", text)  # as Python counts them
        self._source = source
        self._taken: set[ast.AST] = set()

    def run(self, tree: ast.AST) -> None:
        """Look at calls first, as what they take isn't looked at by itself."""
        nodes = list(ast.walk(tree))
        for node in nodes:
            if isinstance(node, ast.Call):
                self._call(node)
        inner = {
            part for node in nodes if isinstance(node, ast.JoinedStr) for part in ast.walk(node) if part is not node
        }
        for node in nodes:
            if node not in self._taken and node not in inner:
                self._loose(node)

    def _call(self, call: ast.Call) -> None:
        for path, data in _writes(call):
            text = _text(path)
            if text is not None and is_file(text[0]) and text[0] not in (FILTER, TRIGGER):
                self._add(data, partial(_written, text[0], data))
        called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if called in _SHELL and call.args:
            text = _text(call.args[0])
            if text is not None and " " in text[0] and not looks_like_definition(text[0]):
                self._add(call.args[0], inside)
        if isinstance(call.func, ast.Attribute) and called == "trace" and call.args:
            text = _text(call.args[0])
            if text is not None and _PROBE.match(text[0]):
                self._add(call.args[0], lambda said, position: [definition(said, position, is_short=True)])
                filters = [keyword.value for keyword in call.keywords if keyword.arg == "filter"]
                for data in (*call.args[1:2], *filters):
                    self._add(data, lambda said, position: [Statement(FILTER, said, FILTER, position)])

    def _add(self, node: ast.expr, read: _Reading) -> None:
        text = _text(node)
        if text is None or node in self._taken:
            return
        self._taken.add(node)
        self.statements += [_unclear(one, text[1]) for one in read(text[0], self._position(node))]

    def _position(self, node: ast.expr) -> Position:
        """Return where a node begins, its column in characters."""
        before = self._lines[node.lineno - 1].encode(errors="replace")[: node.col_offset]
        return Position(self._source, node.lineno, len(before.decode(errors="replace")) + 1)

    def _loose(self, node: ast.AST) -> None:
        text = _text(node)
        if text is None or not isinstance(node, ast.expr):
            return
        lines = placed(text[0], self._position(node), is_on_one_line=_is_on_one_line(node, text[0]))
        if lines and all(looks_like_definition(line, has_unknown=bool(text[1])) for line, _ in lines):
            self.statements += [_unclear(definition(line.strip(), position), text[1]) for line, position in lines]


TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    _Reading = Callable[[str, Position], list[Statement]]


def _writes(call: ast.Call) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield path and data of what may be a write: two arguments in a row, or a method of what a path was given to."""
    yield from zip(call.args, call.args[1:], strict=False)
    func = call.func
    if not (isinstance(func, ast.Attribute) and func.attr.startswith("write") and isinstance(func.value, ast.Call)):
        return
    if func.value.args and call.args:
        yield func.value.args[0], call.args[0]


def _written(path: str, node: ast.expr, said: str, position: Position) -> list[Statement]:
    return written(path, said, position, is_on_one_line=_is_on_one_line(node, said))


def _is_on_one_line(node: ast.expr, text: str) -> bool:
    """Return whether the lines of a string aren't lines of the program: their ends are written as backslash and n."""
    return (node.end_lineno or node.lineno) - node.lineno < text.rstrip("\n").count("\n")


def _text(node: ast.AST) -> tuple[str, str] | None:
    """Return a string's text and its first replacement field, "" if it has none; None for what is no string."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bytes):
            return node.value.decode(errors="surrogateescape"), ""
        return (node.value, "") if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        pieces, field = list[str](), ""
        for part in node.values:
            if isinstance(part, ast.Constant):
                pieces.append(str(part.value))
            else:
                name = "{" + (ast.unparse(part.value) if isinstance(part, ast.FormattedValue) else "") + "}"
                pieces.append(name)
                field = field or name
        return "".join(pieces), field
    return None


def _unclear(one: Statement, field: str) -> Statement:
    return one._replace(unclear=f"what {field} is isn't known") if field and field in one.text else one
