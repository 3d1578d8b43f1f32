"""The names of a Python program: where each is bound, and in which function."""

from __future__ import annotations

import ast
import re

from kprobe_check.statement import Position

Routine = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Names:
    """A program's names: where each is bound, and in which function a node stands."""

    def __init__(self, tree: ast.AST, source: str, text: str) -> None:
        self.source = source
        self._lines = re.split("\r\n|\r|\n", text)  # as Python counts them
        self.nodes: list[ast.AST] = []
        self.within: dict[ast.AST, Routine | None] = {}
        self.functions: dict[str, list[Routine]] = {}
        self._bound: dict[tuple[Routine | None, str], list[ast.expr | None]] = {}
        self._attributes: dict[str, list[ast.expr | None]] = {}
        self.calls: dict[str, list[ast.Call]] = {}
        self._collect(tree)

    def position(self, node: ast.expr) -> Position:
        """Return where a node begins, its column in characters."""
        before = self._lines[node.lineno - 1].encode(errors="replace")[: node.col_offset]
        return Position(self.source, node.lineno, len(before.decode(errors="replace")) + 1)

    # ------------------------------------------------------------------------------------------------- names

    def _collect(self, tree: ast.AST) -> None:
        queue: list[tuple[ast.AST, Routine | None, bool]] = [(tree, None, False)]
        for node, function, is_class in queue:
            self.nodes.append(node)
            self.within[node] = function
            self._bind(node, function, is_class=is_class)
            inner = node if isinstance(node, Routine) else function
            inside_class = isinstance(node, ast.ClassDef) or (is_class and not isinstance(node, Routine))
            queue += [(child, inner, inside_class) for child in ast.iter_child_nodes(node)]

    def _bind(self, node: ast.AST, function: Routine | None, *, is_class: bool) -> None:
        for target, value in _targets(node):
            self._bind_target(target, value, function, is_class=is_class)
        if isinstance(node, ast.Call):
            self.calls.setdefault(called(node), []).append(node)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            for name in node.names:
                self._bound.setdefault((function, name), []).append(None)
                self._bound.setdefault((None, name), []).append(None)
        elif isinstance(node, Routine):
            self._bind_parameters(node)

    def _bind_parameters(self, node: Routine) -> None:
        for name in _parameters(node):
            self._bound.setdefault((node, name), []).append(None)
        if not isinstance(node, ast.Lambda):
            self.functions.setdefault(node.name, []).append(node)

    def _bind_target(
        self, target: ast.expr, value: ast.expr | None, function: Routine | None, *, is_class: bool
    ) -> None:
        if isinstance(target, ast.Name):
            self._bound.setdefault((function, target.id), []).append(value)
            if is_class:
                self._attributes.setdefault(target.id, []).append(value)
        elif isinstance(target, ast.Attribute):
            self._attributes.setdefault(target.attr, []).append(value)
        elif isinstance(target, ast.Tuple | ast.List):
            values = value.elts if isinstance(value, ast.Tuple | ast.List) else []
            for index, one in enumerate(target.elts):
                inner = values[index] if len(values) == len(target.elts) else None
                self._bind_target(one, inner, function, is_class=is_class)
        elif isinstance(target, ast.Starred):
            self._bind_target(target.value, None, function, is_class=is_class)

    def bindings(self, node: ast.expr, function: Routine | None) -> list[ast.expr | None]:
        """Return the expressions that a name or attribute is bound to, None for anything but a plain expression."""
        if isinstance(node, ast.Attribute):
            return self._attributes.get(node.attr, [])
        if not isinstance(node, ast.Name):
            return []
        while True:
            if (function, node.id) in self._bound or function is None:
                return self._bound.get((function, node.id), [])
            function = self.within[function]


def called(call: ast.Call) -> str:
    """Return the last part of the called name, "" if there is none."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _targets(node: ast.AST) -> list[tuple[ast.expr, ast.expr | None]]:
    """Return the names that a node binds, each with its expression, None where that isn't the whole value."""
    if isinstance(node, ast.Assign):
        return [(target, node.value) for target in node.targets]
    if isinstance(node, ast.AnnAssign | ast.NamedExpr):
        return [(node.target, node.value)]
    if isinstance(node, ast.withitem) and node.optional_vars is not None:
        return [(node.optional_vars, node.context_expr)]
    if isinstance(node, ast.AugAssign | ast.For | ast.AsyncFor | ast.comprehension):
        return [(node.target, None)]
    return []


def _parameters(function: Routine) -> list[str]:
    each = function.args
    found = [one.arg for one in (*each.posonlyargs, *each.args, *each.kwonlyargs)]
    return found + [one.arg for one in (each.vararg, each.kwarg) if one is not None]
