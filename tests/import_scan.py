"""The imports between modules, read from the source, and the order that layers.toml declares."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
HOMES = {
    "kprobe_text": ROOT / "kprobe_text",
    "kprobe": ROOT / "kprobe",
    "kprobe_corpus": ROOT / "kprobe_corpus",
    "kprobe_check": ROOT / "kprobe_check",
    "kprobe_sim": ROOT / "kprobe_sim",
    "kprobe_vm": ROOT / "vm" / "kprobe_vm",
    "kprobe_lab": ROOT / "vm" / "kprobe_lab",
}

Edges = Mapping[tuple[str, str], Sequence[str]]


class Layer(NamedTuple):
    """One layer: a package of that name, or, if it has members, these modules."""

    name: str
    members: tuple[str, ...] = ()

    def has(self, module: str) -> bool:
        """True if a module, by its name below the distribution's package, belongs to it."""
        if self.members:
            return module in self.members
        return module == self.name or module.startswith(f"{self.name}.")


def declared() -> dict[str, dict[str, list[str]]]:
    """Return what layers.toml says: `packages`, and the `layers` of each."""
    found: dict[str, dict[str, list[str]]] = tomllib.loads((ROOT / "layers.toml").read_text(encoding="utf-8"))
    return found


def layers() -> dict[str, tuple[Layer, ...]]:
    """Return the declared layers of each package, ground first."""
    return {package: tuple(_layer(line) for line in lines) for package, lines in declared()["layers"].items()}


def _layer(line: str) -> Layer:
    name, _, members = line.partition(":")
    return Layer(name, tuple(members.split()))


def modules(home: Path) -> dict[str, Path]:
    """Return the modules below a package's directory by dotted name; a package stands for its `__init__`."""
    found = {}
    for path in sorted(home.rglob("*.py")):
        parts = (home.name, *path.relative_to(home).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def edges(home: Path) -> dict[tuple[str, str], list[str]]:
    """Return the imports between the modules of a package, those for typing and within functions included.

    The value of an edge are the names that are imported.
    """
    known = modules(home)
    found: dict[tuple[str, str], list[str]] = {}
    for module, path in known.items():
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        for target, name in _imports(ast.parse(path.read_text(encoding="utf-8")), package, known):
            if target != module:
                found.setdefault((module, target), []).append(name)
    return found


def _imports(tree: ast.AST, package: str, known: Mapping[str, Path]) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                source = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                whole = f"{source}.{alias.name}"
                if whole in known:
                    yield whole, ""
                elif source in known:
                    yield source, alias.name


def layer_of(module: str, order: Sequence[Layer]) -> int | None:
    """Return the place of a module's layer in the order; None for the package's own `__init__` or if it has none.

    A room in a room has a layer of its own if the order names it.
    """
    inside = module.partition(".")[2]
    fitting = [place for place, layer in enumerate(order) if layer.has(inside)]
    return max(fitting, key=lambda place: bool(order[place].members) * 1000 + len(order[place].name), default=None)


def homeless(known: Mapping[str, Path], order: Sequence[Layer]) -> list[str]:
    """Return the modules that no layer has."""
    return [module for module in known if "." in module and layer_of(module, order) is None]


def upward(found: Edges, order: Sequence[Layer]) -> list[str]:
    """Return the imports of something that lies higher."""
    wrong = []
    for (module, target), names in found.items():
        here, there = layer_of(module, order), layer_of(target, order)
        if here is not None and there is not None and there > here:
            wrong.append(f"{module} imports {', '.join(filter(None, names)) or target} of {target}")
    return wrong


def circles(found: Edges) -> list[list[str]]:
    """Return the sets of modules that import each other in a circle (Tarjan's strongly connected components)."""
    targets: dict[str, list[str]] = {}
    for module, target in found:
        targets.setdefault(module, []).append(target)
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    result = []

    def visit(module: str) -> None:
        number[module] = low[module] = len(number)
        stack.append(module)
        for target in targets.get(module, ()):
            if target not in number:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], number[target])
        if low[module] == number[module]:
            at = stack.index(module)
            if len(stack) - at > 1:
                result.append(sorted(stack[at:]))
            del stack[at:]

    for module in list(targets):
        if module not in number:
            visit(module)
    return result
