"""The value of a Python expression that is a text, as far as the program itself contains it.

Known are literals and texts made of them (+, %, format, f-strings, join, paths), names and attributes that are bound
once in a module or function, and the arguments of a function's calls.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Mapping
from string import Formatter

from kprobe_check.sources.programs.names import Names, Routine, called
from kprobe_check.sources.texts import Text, plus, unknown

_DEPTH = 60  # names behind names
_CALLS = 64  # calls of a function that are considered
_LONGEST = 1 << 16  # characters of a text
_CONVERSION = re.compile(r"%(?:\((\w+)\))?([-#0 +]*+)(\d*+)(?:\.(\d+))?[hlL]?([diouxXeEfFgGcrsa%])")
_SAME = frozenset(["encode", "decode", "rstrip", "lstrip", "strip", "as_posix", "resolve", "absolute"])
_WRAPS = frozenset(["str", "bytes", "bytearray", "Path", "PurePath", "PosixPath", "fspath", "dedent", "memoryview"])


class PythonProgram(Names):
    """A program, and the values of its expressions."""

    def __init__(self, tree: ast.AST, source: str, text: str) -> None:
        self.templates: set[ast.AST] = set()  # literals used as formats
        self._known: dict[tuple[ast.AST, int], Text | None] = {}
        self._environments: dict[Routine, list[Mapping[str, Text]]] = {}
        super().__init__(tree, source, text)

    def environments(self, function: Routine | None, depth: int = 0) -> list[Mapping[str, Text]]:
        """Return the arguments of a function in the program's calls, one dict for each call."""
        if function is None or isinstance(function, ast.Lambda) or len(self.functions[function.name]) > 1:
            return [{}]
        if function in self._environments:
            return self._environments[function]
        self._environments[function] = [{}]  # for a function that calls itself
        found: list[Mapping[str, Text]] = []
        for call in self.calls.get(function.name, [])[:_CALLS] if depth < 4 else ():
            for outer in self.environments(self.within[call], depth + 1):
                found.append(self._given(function, call, outer))
        self._environments[function] = found[:_CALLS] or [{}]
        return self._environments[function]

    def _given(
        self, function: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call, outer: Mapping[str, Text]
    ) -> Mapping[str, Text]:
        names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
        if names[:1] in (["self"], ["cls"]) and isinstance(call.func, ast.Attribute):
            names = names[1:]
        positional = (
            {} if any(isinstance(one, ast.Starred) for one in call.args) else dict(zip(names, call.args, strict=False))
        )
        given = positional | {one.arg: one.value for one in call.keywords if one.arg}
        defaults = dict(zip(reversed(names), reversed(function.args.defaults), strict=False))
        texts = {name: self.text(node, self.within[call], outer) for name, node in given.items()}
        if not any(one.arg is None for one in call.keywords):
            texts |= {name: self.text(node, None) for name, node in defaults.items() if name not in given}
        return {name: text for name, text in texts.items() if text is not None}

    # ------------------------------------------------------------------------------------------------- values

    def text_of(self, node: ast.expr, function: Routine | None, given: Mapping[str, Text] | None = None) -> Text:
        """Return the text of an expression; if unknown, the expression's code."""
        text = self.text(node, function, given)
        return self._unknown(node) if text is None else text

    def _unknown(self, node: ast.expr) -> Text:
        return unknown("{" + ast.unparse(node) + "}", self.position(node))

    def text(
        self, node: ast.expr, function: Routine | None, given: Mapping[str, Text] | None = None, depth: int = 0
    ) -> Text | None:
        """Return the text of an expression; None unless it is known to be a text."""
        key = (node, id(given) if given else 0)  # keeps the arguments alive as long as this
        if key not in self._known:
            self._known[key] = None  # for a name that is bound to itself
            self._known[key] = self._text(node, function, given or {}, depth)
        return self._known[key]

    def _text(self, node: ast.expr, function: Routine | None, given: Mapping[str, Text], depth: int) -> Text | None:
        if depth > _DEPTH:
            return None
        found: Text | None = None
        if isinstance(node, ast.Constant):
            return self._constant(node)
        if isinstance(node, ast.Name | ast.Attribute):
            return self._name(node, function, given, depth)

        def inner(one: ast.expr) -> Text | None:
            return self.text(one, function, given, depth + 1)

        if isinstance(node, ast.JoinedStr):
            found = self._joined(node, inner)
        elif isinstance(node, ast.BinOp):
            found = self._operation(node, inner)
        elif isinstance(node, ast.Call):
            found = self._call(node, inner)
        if found is None or len(found.text) > _LONGEST:
            return None
        if found.position.line:  # it is what another expression says
            return found
        rows = (node.end_lineno or node.lineno) - node.lineno
        return found._replace(position=self.position(node), rows=rows)

    def _constant(self, node: ast.Constant) -> Text | None:
        value = node.value
        if isinstance(value, bytes):
            value = value.decode(errors="surrogateescape")
        if not isinstance(value, str):
            return None
        return Text(value, (), self.position(node), rows=(node.end_lineno or node.lineno) - node.lineno)

    def _name(
        self, node: ast.Name | ast.Attribute, function: Routine | None, given: Mapping[str, Text], depth: int
    ) -> Text | None:
        bound = self.bindings(node, function)
        if isinstance(node, ast.Name) and node.id in given and bound == [None]:
            return given[node.id]
        if len(bound) != 1 or bound[0] is None:
            return None
        return self.text(bound[0], self.within[bound[0]], given if function else None, depth + 1)

    def _joined(self, node: ast.JoinedStr, inner: Callable[[ast.expr], Text | None]) -> Text:
        found = Text("")
        for part in node.values:
            if isinstance(part, ast.Constant):
                found = plus(found, Text(str(part.value)))
            elif isinstance(part, ast.FormattedValue):
                found = plus(found, self._formatted(part, inner))
        return found

    def _formatted(self, part: ast.FormattedValue, inner: Callable[[ast.expr], Text | None]) -> Text:
        shown = unknown("{" + ast.unparse(part.value) + "}")
        value = self._plain(part.value, inner)
        spec = "" if part.format_spec is None else inner(part.format_spec)
        if value is None or part.conversion not in (-1, 115) or (isinstance(spec, Text) and spec.unknowns):
            return shown
        if isinstance(value, Text) and not spec:
            return value
        try:
            raw = value.text if isinstance(value, Text) else value
            return Text(format(raw, spec.text if isinstance(spec, Text) else "")) if _is_known(value) else shown
        except ValueError:
            return shown

    def _plain(self, node: ast.expr, inner: Callable[[ast.expr], Text | None]) -> Text | int | None:
        """Return a text or a number."""
        bound = node
        for _ in range(_DEPTH):
            if isinstance(bound, ast.Constant) and type(bound.value) is int:
                return bound.value
            each = self.bindings(bound, self.within.get(bound))
            if len(each) != 1 or each[0] is None:
                break
            bound = each[0]
        return inner(node)

    def _operation(self, node: ast.BinOp, inner: Callable[[ast.expr], Text | None]) -> Text | None:
        if isinstance(node.op, ast.Add):
            operands = _operands(node)
            texts = [inner(one) for one in operands]
            if all(one is None for one in texts):
                return None
            found = Text("")
            for one, operand in zip(texts, operands, strict=True):
                found = plus(found, self._unknown(operand) if one is None else one)
            return found
        left = inner(node.left)
        if left is None:
            return None
        if isinstance(node.op, ast.Div):
            right = inner(node.right)
            return plus(plus(left, Text("/")), self._unknown(node.right) if right is None else right)
        if isinstance(node.op, ast.Mod):
            self._note_template(node.left)
            return self._percent(left, node.right, inner)
        return None

    def _note_template(self, node: ast.expr) -> None:
        for _ in range(_DEPTH):
            self.templates.add(node)
            bound = self.bindings(node, self.within.get(node))
            if len(bound) != 1 or bound[0] is None:
                return
            node = bound[0]

    def _percent(self, left: Text, right: ast.expr, inner: Callable[[ast.expr], Text | None]) -> Text:
        values = list(right.elts) if isinstance(right, ast.Tuple) else [right]
        named = {}
        if isinstance(right, ast.Dict):
            named = {
                key.value: value
                for key, value in zip(right.keys, right.values, strict=True)
                if isinstance(key, ast.Constant)
            }
        pieces, at, index = Text("", left.unknowns), 0, 0
        for found in _CONVERSION.finditer(left.text):
            pieces = plus(pieces, Text(left.text[at : found.start()]))
            at = found.end()
            if found[5] == "%":
                pieces = plus(pieces, Text("%"))
                continue
            node = named.get(found[1]) if found[1] else values[index] if index < len(values) else None
            index += not found[1]
            pieces = plus(pieces, self._converted(found, node, inner))
        return plus(pieces, Text(left.text[at:]))

    def _converted(self, found: re.Match[str], node: ast.expr | None, inner: Callable[[ast.expr], Text | None]) -> Text:
        if node is None:
            return unknown(found[0])
        value = self._plain(node, inner)
        if value is None:
            return unknown("{" + ast.unparse(node) + "}")
        if isinstance(value, Text) and found[0] == "%s":
            return value
        try:
            form = found[0].replace(f"({found[1]})", "") if found[1] else found[0]
            return (
                Text(form % (value.text if isinstance(value, Text) else value))
                if _is_known(value)
                else unknown("{" + ast.unparse(node) + "}")
            )
        except (ValueError, TypeError, OverflowError):
            return unknown(found[0])

    def _call(self, node: ast.Call, inner: Callable[[ast.expr], Text | None]) -> Text | None:
        name = called(node)
        if isinstance(node.func, ast.Attribute) and name not in _WRAPS:
            return self._method(name, node.func.value, node, inner)
        if name in _WRAPS and node.args:
            text = inner(node.args[0])
            if name in ("Path", "PurePath", "PosixPath"):
                return self._path(node.args, inner)
            return text and (text._replace(text=textwrap.dedent(text.text)) if name == "dedent" else text)
        return None

    def _path(self, nodes: list[ast.expr], inner: Callable[[ast.expr], Text | None]) -> Text | None:
        found: Text | None = None
        for node in nodes:
            text = inner(node) or self._unknown(node)
            found = plus(Text(""), text) if found is None else plus(plus(found, Text("/")), text)
        return found

    def _method(self, name: str, on: ast.expr, node: ast.Call, inner: Callable[[ast.expr], Text | None]) -> Text | None:
        if name == "join" and isinstance(on, ast.Attribute | ast.Name) and ast.unparse(on).endswith("path"):
            return self._path(node.args, inner)
        text = inner(on)
        if text is None:
            return None
        if name in ("joinpath", "with_name"):
            return plus(plus(text, Text("/")), self._path(node.args, inner) or Text(""))
        if name == "format":
            self._note_template(on)
            return self._format(text, node, inner)
        if name == "join" and len(node.args) == 1 and isinstance(node.args[0], ast.List | ast.Tuple):
            return self._list(text, node.args[0].elts, inner)
        if name in _SAME:
            strips = name.endswith("strip") and not node.args
            return text._replace(text=getattr(text.text, name)() if strips else text.text)
        if name in ("upper", "lower") and not text.unknowns:
            return text._replace(text=getattr(text.text, name)())
        if name == "replace" and len(node.args) == 2 and not text.unknowns:
            return self._replaced(text, node.args[0], node.args[1], inner)
        return None

    def _list(self, between: Text, nodes: list[ast.expr], inner: Callable[[ast.expr], Text | None]) -> Text:
        found = Text("")
        for index, one in enumerate(nodes):
            found = plus(found, between if index else Text(""))
            found = plus(found, inner(one) or self._unknown(one))
        return found

    def _replaced(
        self, text: Text, old: ast.expr, new: ast.expr, inner: Callable[[ast.expr], Text | None]
    ) -> Text | None:
        what, put = inner(old), inner(new) or self._unknown(new)
        if what is None or not what.text or what.unknowns or len(text.text) > 1 << 10:
            return None
        is_there = what.text in text.text
        return text._replace(text=text.text.replace(what.text, put.text), unknowns=put.unknowns if is_there else ())

    def _format(self, text: Text, node: ast.Call, inner: Callable[[ast.expr], Text | None]) -> Text | None:
        named = {one.arg: one.value for one in node.keywords if one.arg}
        found, index = Text("", text.unknowns), 0
        try:
            for literal, field, spec, conversion in Formatter().parse(text.text):
                found = plus(found, Text(literal))
                if field is None:
                    continue
                written = "{" + field + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "") + "}"
                at = field or str(index)
                index += not field
                value = node.args[int(at)] if at.isdecimal() and int(at) < len(node.args) else named.get(at)
                part = None if value is None or spec or conversion else self._plain(value, inner)
                if part is None:
                    found = plus(found, unknown(written if value is None else "{" + ast.unparse(value) + "}"))
                else:
                    found = plus(found, part if isinstance(part, Text) else Text(str(part)))
        except ValueError:
            return None
        return found


def _operands(node: ast.expr) -> list[ast.expr]:
    found: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        found.append(node.right)
        node = node.left
    return [node, *reversed(found)]


def _is_known(value: Text | int) -> bool:
    return not (isinstance(value, Text) and value.unknowns)
