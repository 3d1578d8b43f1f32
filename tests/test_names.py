"""Public names of the packages say what they mean: none is a retired word of docs/glossary.md.

`python tests/test_names.py` writes tests/retired_names.txt anew: the names that are yet to be replaced.  A name that is
in it and no longer in the source fails, too, so the list only gets shorter.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("kprobe", "kprobe_text", "kprobe_corpus", "kprobe_check", "kprobe_sim", "vm/kprobe_vm", "vm/kprobe_lab")
REMAINING = Path(__file__).with_name("retired_names.txt")
# what programs of others use: the glossary says so
KEPT = re.compile(r"kprobe/definitions/probe\.py:Place|kprobe_sim/.*[.:](?:Call|ProgramCall|SimulatedKernel)[\w.]*\.at")


def retired() -> set[str]:
    """Return the words of the glossary's second table."""
    table = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").partition("## Retired words")[2]
    return {word for row in re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE) for word in re.findall(r"`(\w+)`", row)}


def public(name: str) -> bool:
    return not name.startswith("_")


def names(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    """Yield the public classes, functions, parameters and attributes in a body, each with what it belongs to."""
    for node in body:
        if isinstance(node, ast.ClassDef) and public(node.name):
            yield prefix + node.name
            yield from names(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if public(node.name):
                yield prefix + node.name
            if public(node.name) or node.name in ("__init__", "__new__", "__call__"):
                arguments = node.args
                for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                    yield f"{prefix}{node.name}.{argument.arg}"
            if prefix:
                yield from (f"{prefix}{name}" for name in assigned(node))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield prefix + node.target.id
        elif isinstance(node, ast.Assign):
            yield from (prefix + target.id for target in node.targets if isinstance(target, ast.Name))


def assigned(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Yield the attributes of `self` that a method sets."""
    for node in ast.walk(function):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()) if public(name):
                yield name


def bearing() -> set[str]:
    """Return the public names that are retired words, as path:name."""
    words, result = retired(), set()
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            module = path.relative_to(ROOT)
            if path.stem in words:
                result.add(f"{module}:")
            for name in names(ast.parse(path.read_text(encoding="utf-8")).body):
                if name.rpartition(".")[2].lower() in words:
                    result.add(f"{module}:{name}")
    return {name for name in result if not KEPT.fullmatch(name)}


def test_there_are_retired_words() -> None:
    assert {"found", "at", "place", "one"} <= retired()


def test_no_public_name_is_a_retired_word() -> None:
    assert bearing() - set(REMAINING.read_text(encoding="utf-8").splitlines()) == set()


def test_what_remains_is_still_there() -> None:
    assert set(REMAINING.read_text(encoding="utf-8").splitlines()) - bearing() == set()


if __name__ == "__main__":
    REMAINING.write_text("".join(f"{name}\n" for name in sorted(bearing())), encoding="utf-8")
