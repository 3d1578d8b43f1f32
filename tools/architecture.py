"""The layers of the three packages, read from the source: the house in ARCHITECTURE.md and its picture.

    python tools/architecture.py            write it between the markers of ARCHITECTURE.md, and docs/architecture.svg
    python tools/architecture.py --check    say if they are as they would be written; status 1 if not

`layers.toml` declares the order; tests/test_architecture.py holds the imports to it.
"""

from __future__ import annotations

import ast
import sys
import textwrap
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
HOMES = {"kprobe": ROOT / "kprobe", "kprobe_sim": ROOT / "kprobe_sim", "kprobe_vm": ROOT / "vm" / "kprobe_vm"}
PAGE = ROOT / "ARCHITECTURE.md"
PICTURE = ROOT / "docs" / "architecture.svg"
START, END = "<!-- tools/architecture.py writes from here -->\n", "<!-- to here -->\n"

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


def layers() -> dict[str, tuple[Layer, ...]]:
    """Return the declared layers of each package, ground first."""
    declared = tomllib.loads((ROOT / "layers.toml").read_text(encoding="utf-8"))
    return {package: tuple(_layer(line) for line in lines) for package, lines in declared.items()}


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
    """Return the place of a module's layer in the order; None for the package's own `__init__` or if it has none."""
    inside = module.partition(".")[2]
    return next((place for place, layer in enumerate(order) if layer.has(inside)), None)


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


def first_sentence(path: Path) -> str:
    """Return the first sentence of a module's docstring, without its full stop."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split()).partition(". ")[0].rstrip(".")


def house() -> str:
    """Return the text between the markers: the packages from the top down, each with its modules."""
    text = "![The layers and the imports between them](docs/architecture.svg)\n"
    for package, order in layers().items():
        home = HOMES[package]
        known = modules(home)
        shown = home.relative_to(ROOT)
        text += f"\n### `{shown}/`\n\nThe order, ground first:\n\n"
        text += textwrap.fill(", ".join(f"`{layer.name}`" for layer in order), 120) + ".\n"
        for place, layer in enumerate(order):
            mine = {name: path for name, path in known.items() if layer_of(name, order) == place}
            directory = home / layer.name.replace(".", "/")
            if not layer.members:
                intro = ast.get_docstring(ast.parse((directory / "__init__.py").read_text(encoding="utf-8"))) or ""
                text += f"\n#### `{directory.relative_to(ROOT)}/`\n\n{intro}\n\n"
            else:
                text += f"\n#### `{layer.name}`\n\n"
            for path in mine.values():
                if path.name == "__init__.py" and path.parent == directory:
                    continue
                name = str(path.relative_to(home if layer.members else directory))
                text += f"    {name:<24}{first_sentence(path)}\n"
    return text + "\n"


_ROW, _WIDTH, _LEFT, _GAP = 26, 190, 20, 40


def picture() -> str:
    """Return an SVG: a column of layers for each package, ground at the bottom, and an arc for each pair that imports.

    An arc is as thick as there are imports; it goes down on the right of its column.
    """
    shapes: list[str] = []
    columns = layers()
    height = max(map(len, columns.values())) * _ROW + 70
    left = _LEFT
    for package, order in columns.items():
        home = HOMES[package]
        count = Counter(layer_of(name, order) for name in modules(home))
        pairs = Counter((layer_of(module, order), layer_of(target, order)) for module, target in edges(home))
        top = height - 20 - len(order) * _ROW
        shapes.append(f'<text x="{left}" y="{top - 12}" class="package">{escape(package)}</text>')
        for place, layer in enumerate(order):
            y = height - 20 - (place + 1) * _ROW
            shapes.append(f'<rect x="{left}" y="{y}" width="{_WIDTH}" height="{_ROW - 5}" rx="3"/>')
            shapes.append(f'<text x="{left + 8}" y="{y + 15}">{escape(layer.name)}</text>')
            shapes.append(f'<text x="{left + _WIDTH - 8}" y="{y + 15}" class="count">{count[place]}</text>')
        reach = 0
        for (here, there), number in sorted(pairs.items(), key=str):
            if here is None or there is None or here == there:
                continue
            x, start, end = left + _WIDTH, _middle(height, here), _middle(height, there)
            bow = 14 + 9 * abs(here - there)
            reach = max(reach, bow)
            shapes.append(
                f'<path d="M{x} {start} C{x + bow} {start} {x + bow} {end} {x} {end}" '
                f'stroke-width="{0.4 + min(number, 20) / 6:.1f}"/>'
            )
        left += _WIDTH + int(reach * 0.75) + _GAP
    style = (
        "svg{background:#fff}rect{fill:#eef3f8;stroke:#5b7a99}text{font:12px sans-serif;fill:#123}"
        ".package{font-weight:bold;font-size:14px}.count{text-anchor:end;fill:#678}"
        "path{fill:none;stroke:#c0632f;stroke-opacity:.55}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left}" height="{height}">'
        f"<style>{style}</style>\n" + "\n".join(shapes) + "\n</svg>\n"
    )


def _middle(height: int, place: int) -> float:
    return height - 20 - (place + 1) * _ROW + (_ROW - 5) / 2


def page() -> str:
    """Return ARCHITECTURE.md as it should be."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    return before + START + "\n" + house() + END + rest.partition(END)[2]


def main() -> int:
    wanted = {PAGE: page(), PICTURE: picture()}
    if "--check" not in sys.argv:
        for path, text in wanted.items():
            path.write_text(text, encoding="utf-8")
        return 0
    stale = [path.name for path, text in wanted.items() if path.read_text(encoding="utf-8") != text]
    if stale:
        print(f"{' and '.join(stale)}: run tools/architecture.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
