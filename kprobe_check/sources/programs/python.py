"""Statements in Python code, by this rule:

- text written to a file of a tracefs that takes definitions, filters or triggers: by `write`, `writelines`, `print` or
  `os.write` to an open file, by `write_text`, or by a function that is given the path and then the text;
- an opening of a file of definitions with "w", which removes all probes in it, or with "a", which fails;
- the definition and `filter=` of a call of a method `trace`;
- shell commands, read by `scripts`: the first argument of `system`, `run`, `Popen`, `call` and the like, and any string
  that is a command which writes to such a file;
- any other string each of whose lines is a definition with a name and a place.

`constants` knows the values that the program itself contains; other values are reported as unknown, and can't be asked.
"""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kprobe_check.sources.lists import begins_statement, is_definitions, is_file, placed, written
from kprobe_check.sources.openings import appending, truncation
from kprobe_check.sources.programs.commands import command, is_command
from kprobe_check.sources.programs.constants import PythonProgram
from kprobe_check.sources.programs.names import Routine, called
from kprobe_check.sources.texts import Text, plus, unclear
from kprobe_check.statement import FILTER, Statement, definition, looks_like_definition, without_doubles

_PROBE = re.compile(r"\s*[pr]\d*:[\w/]")
_SHELL = frozenset(
    ["system", "popen", "run", "Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput"]
)
_OF_PATHS = ("write_text", "write_bytes")
_OPENING = frozenset(["open", "fdopen", "FileIO"])
_SAYING = re.compile(
    r"print|debug|info|warn(?:ing)?|error|critical|exception|log|fail|skip|exit|add_argument|ArgumentParser|\w*(?:Error|Exception)"
)
_WRITING = re.compile(r"(?i)write|append|echo|put|add|tee|save|send|push|store|set")
_NOT_WRITING = frozenset(["open", "fdopen", "join", "exists", "access", "chmod", "getattr", "replace", "add_argument"])
_FIELD = re.compile(r"%[-#0 +]*+\d*+(?:l|ll|z|h)?[sdxXucrf](?!\w)|\{[\w.\[\]!:]*\}")
_INSTEAD = "os.open(…, os.O_WRONLY | os.O_APPEND)"
_SHOWN = 60


class NotPython(ValueError):
    """The text can't be read as Python; `line` says where."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def statements_in(text: str, source: str) -> list[Statement]:
    """Return the statements of a Python program.  Raise `NotPython`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about the program, such as invalid escapes
            tree = ast.parse(text)
        return _PythonReader(PythonProgram(tree, source, text)).statements()
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NotPython(getattr(error, "msg", None) or str(error), getattr(error, "lineno", None) or 1) from None


class _PythonReader:
    def __init__(self, program: PythonProgram) -> None:
        self._program = program
        self._statements: dict[Statement, bool] = {}  # and whether it is certainly written
        self._silent: set[ast.AST] = set()  # texts that aren't statements, whatever they look like
        self._given: set[Routine] = set()  # functions that write their arguments

    def statements(self) -> list[Statement]:
        """Return the statements in the order of the source."""
        calls = [node for node in self._program.nodes if isinstance(node, ast.Call)]
        for call in calls:
            self._write(call)
        for call in calls:
            self._pair(call)
            self._shell(call)
            self._traced(call)
        for node in self._program.nodes:
            self._silence(node)
        for node in self._program.nodes:
            if isinstance(node, ast.expr) and node not in self._silent:
                self._loose(node)
        return sorted(without_doubles(self._statements), key=lambda one: (one.position.line, one.position.column))

    def _add(self, statements: Iterable[Statement], value: Text, *, is_certain: bool = True) -> None:
        for one in statements:
            clear = unclear(one, value)
            self._statements[clear] = self._statements.get(clear, False) or is_certain

    # ------------------------------------------------------------------------------------------------- writes

    def _write(self, call: ast.Call) -> None:
        """Note what a call writes to an open file, and how it opens one."""
        self._opening(call)
        function = self._program.within[call]
        for on, data in _written_by(call):
            is_path = called(call) in _OF_PATHS
            opened = (on, function) if is_path else self._opened(on, function, call.lineno)
            if opened is None:
                continue
            path, place = opened
            for given in self._program.environments(function):
                where = self._program.text_of(path, place, given if place is function else None)
                if is_file(where.text):
                    self._note(where, data, function, given)
                    if function is not None and given:
                        self._given.add(function)

    def _note(
        self, path: Text, data: Sequence[ast.expr], function: Routine | None, given: Mapping[str, Text] | None
    ) -> None:
        """Note what is written to a file: expressions, which `print` puts blanks between."""
        if len(data) == 1 and isinstance(data[0], ast.List | ast.Tuple):
            for element in data[0].elts:
                self._note(path, [element], function, given)
            return
        each = [self._program.text_of(one, function, given) for one in data]
        value = each[0]
        for one in each[1:]:
            value = plus(plus(value, Text(" ")), one)
        is_on_one_line = value.rows < value.text.rstrip("\n").count("\n")
        self._add(written(path.text, value.text, value.position, is_on_one_line=is_on_one_line), value)

    def _opened(self, node: ast.expr, function: Routine | None, line: int) -> tuple[ast.expr, Routine | None] | None:
        """Return the path of the file that an expression means, and the function that names it."""
        for _ in range(8):
            if isinstance(node, ast.Call):
                name = called(node)
                path = _path_of(node, name)
                if path is not None and name == "fdopen":
                    node = path
                    continue
                if path is not None:
                    return path, self._program.within[node]
                if name in ("fileno", "buffer", "__enter__", "enter_context") and isinstance(node.func, ast.Attribute):
                    node = node.args[0] if name == "enter_context" and node.args else node.func.value
                    continue
                return None
            bound = [one for one in self._program.bindings(node, function) if one is not None]
            before = [one for one in bound if one.lineno <= line] or bound
            if not before:
                return None
            node = before[-1]
            function = self._program.within[node]
        return None

    def _opening(self, call: ast.Call) -> None:
        """Note an opening that empties a file of definitions, or that fails."""
        name = called(call)
        path = call.func.value if name in _OF_PATHS and isinstance(call.func, ast.Attribute) else _path_of(call, name)
        if path is None or name == "fdopen":
            return
        function = self._program.within[call]
        mode = "w" if name in _OF_PATHS else _mode(call)
        seeks = mode.startswith("a")
        if not seeks and not mode.startswith("w"):
            return
        for given in self._program.environments(function):
            where = self._program.text_of(path, function, given)
            if is_definitions(where.text):
                shown = ast.unparse(call)
                shown = shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 1]}…"
                make = appending if seeks else truncation
                self._add([make(where.text, self._program.position(call), shown, _INSTEAD)], Text(""))
                return

    def _pair(self, call: ast.Call) -> None:
        """Note a function's argument after the path of a file."""
        name = called(call)
        if name in _NOT_WRITING or name in _SHELL:
            return
        own = self._program.functions.get(name, [])
        if any(one in self._given for one in own):
            return
        function = self._program.within[call]
        for path, data in zip(call.args, call.args[1:], strict=False):
            where = self._program.text(path, function)
            if where is None or not is_file(where.text):
                continue
            value = self._program.text(data, function)
            is_writing = _WRITING.search(name) is not None
            is_whole = is_definitions(where.text) or "/" in where.text
            begins = value is not None and is_definitions(where.text) and begins_statement(value.text)
            if (is_writing and is_whole) or begins:
                self._note(where, [data], function, None)

    # ------------------------------------------------------------------------------------------------- shells

    def _shell(self, call: ast.Call) -> None:
        name = called(call)
        if name not in _SHELL or not call.args:
            return
        function = self._program.within[call]
        first = call.args[0]
        if isinstance(first, ast.List | ast.Tuple):
            words = [self._program.text_of(one, function) for one in first.elts]
            value = Text("", (), self._program.position(first))
            for index, each in enumerate(words):
                value = plus(value, each._replace(text=" " * bool(index) + shlex.quote(each.text)))
        else:
            given = self._program.text(first, function)
            if given is None or " " not in given.text or looks_like_definition(given.text, given.unknowns):
                return
            value = given
        data = next((one.value for one in call.keywords if one.arg == "input"), None)
        if data is not None:
            read = self._program.text_of(data, function)
            value = plus(value, read._replace(text=f" <<< {shlex.quote(read.text.rstrip(chr(10)))}"))
        self._add(command(value), value)

    # ------------------------------------------------------------------------------------------------- the rest

    def _traced(self, call: ast.Call) -> None:
        if not isinstance(call.func, ast.Attribute) or call.func.attr != "trace" or not call.args:
            return
        function = self._program.within[call]
        value = self._program.text(call.args[0], function)
        if value is None or not _PROBE.match(value.text):
            return
        self._add([definition(value.text, value.position, is_short=True)], value)
        filters = [keyword.value for keyword in call.keywords if keyword.arg == "filter"]
        for data in (*call.args[1:2], *filters):
            one = self._program.text(data, function)
            if one is not None:
                self._add([Statement(FILTER, one.text, FILTER, one.position)], one)

    def _silence(self, node: ast.AST) -> None:
        """Leave out parts of texts, documentation, and messages to people."""
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            self._silent.add(node.value)
        elif self._is_composed(node):
            self._silent.update(part for part in ast.walk(node) if part is not node and isinstance(part, ast.expr))
        elif isinstance(node, ast.Call) and _is_message(node):
            self._silent.update(part for part in ast.walk(node) if isinstance(part, ast.expr))

    def _is_composed(self, node: ast.AST) -> bool:
        """Return whether an expression is a text made of others."""
        is_format = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format"
        return isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.expr) and (is_format or isinstance(node, ast.BinOp)) and self._value(node) is not None
        )

    def _value(self, node: ast.expr) -> Text | None:
        return self._program.text(node, self._program.within[node])

    def _loose(self, node: ast.expr) -> None:
        is_literal = isinstance(node, ast.Constant) and node not in self._program.templates
        if not is_literal and not self._is_composed(node):
            return
        value = self._value(node)
        if value is None:
            return
        if isinstance(node, ast.Constant):
            value = value._replace(unknowns=tuple(dict.fromkeys(_FIELD.findall(value.text))))
        if is_command(value.text):
            self._add(command(value), value, is_certain=False)
            return
        is_on_one_line = value.rows < value.text.rstrip("\n").count("\n")
        lines = placed(value.text, value.position, is_on_one_line=is_on_one_line)
        if lines and all(looks_like_definition(line, value.unknowns) for line, _ in lines):
            self._add([definition(line.strip(), there) for line, there in lines], value, is_certain=False)


def _is_message(call: ast.Call) -> bool:
    """Return whether a call's arguments are only messages to people."""
    return _SAYING.fullmatch(called(call)) is not None and not any(one.arg == "file" for one in call.keywords)


def _path_of(call: ast.Call, name: str) -> ast.expr | None:
    """Return the path of the file that a call opens, or the descriptor that fdopen is given."""
    if name not in _OPENING:
        return None
    if isinstance(call.func, ast.Attribute) and name == "open":
        on = ast.unparse(call.func.value) if isinstance(call.func.value, ast.Name) else ""
        if on not in ("os", "io", "codecs", "builtins", "aiofiles"):
            return call.func.value  # a method of a path
    if call.args:
        return call.args[0]
    return next((one.value for one in call.keywords if one.arg in ("file", "path", "fd")), None)


def _mode(call: ast.Call) -> str:
    """Return the mode of open() in which a call opens a file, "" if unknown."""
    is_method = isinstance(call.func, ast.Attribute)
    on = (
        ast.unparse(call.func.value)
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name)
        else ""
    )
    if on == "os":
        flags = ast.unparse(call.args[1]) if len(call.args) > 1 else ""
        return "w" if "O_TRUNC" in flags else ""
    at = 0 if is_method and on not in ("io", "codecs", "builtins", "aiofiles") else 1
    node = (
        call.args[at] if len(call.args) > at else next((one.value for one in call.keywords if one.arg == "mode"), None)
    )
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _written_by(call: ast.Call) -> Iterator[tuple[ast.expr, Sequence[ast.expr]]]:
    """Yield the possible target of a call's write, and the text."""
    name = called(call)
    if isinstance(call.func, ast.Attribute):
        if isinstance(call.func.value, ast.Name) and call.func.value.id == "os":
            if name in ("write", "pwrite") and len(call.args) > 1:
                yield call.args[0], call.args[1:2]
        elif name in ("write", "writelines", *_OF_PATHS) and call.args:
            yield call.func.value, call.args[:1]
    elif name == "print" and call.args:
        on = next((one.value for one in call.keywords if one.arg == "file"), None)
        if on is not None:
            yield on, call.args
