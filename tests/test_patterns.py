"""Patterns mean the same on every interpreter: none repeats a group without giving back, as ``(a)?+`` or ``(?:ab)*+``.

Up to 3.11.4, `re` matches such a repetition wrongly, with groups in it or not: what it took isn't what it kept.  One
character or class (``[^:]++``) may be repeated so, and an atomic group is right: ``(?>(?:ab)*)`` says the same.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kprobe_sim.language.primitives import glob, name_glob
from kprobe_text.text import layout
from kprobe_text.text.arguments import Arguments

# `re` as it has read a pattern, before it is compiled
reading: Any = importlib.import_module("re._parser")
names: Any = importlib.import_module("re._constants")

ROOT = Path(__file__).parent.parent
PACKAGES = ("kprobe", "kprobe_text", "kprobe_corpus", "kprobe_check", "kprobe_sim", "vm/kprobe_vm", "vm/kprobe_lab")
HOMES = {package.removeprefix("vm/"): ROOT / package for package in PACKAGES}
PLACES = (
    *PACKAGES, "tools", "distributions", "docs/playground", "docs/readers",
)  # fmt: skip
FUNCTIONS = {"compile", "match", "fullmatch", "search", "finditer", "findall", "split", "sub", "subn"}
CALLED = re.compile(rf"\bre\.({'|'.join(FUNCTIONS)})\(")
# as it is written, for patterns that are put together where they are used
WRITTEN = re.compile(r"\)(?:[*+?]|\{\d*(?:,\d*)?\})\+")


def is_one(items: Any) -> bool:
    """Say whether a part of a pattern is one character, which `re` repeats in a loop of its own."""
    if len(items) != 1:
        return False
    operation, argument = items[0]
    if operation is names.SUBPATTERN:
        return argument[0] is None and is_one(argument[-1])
    return operation in (names.LITERAL, names.NOT_LITERAL, names.ANY, names.IN)


def repeated(items: Any) -> Iterator[str]:
    """Yield each group of a pattern that is repeated without giving back."""
    for operation, argument in items:
        if operation is names.POSSESSIVE_REPEAT and not is_one(argument[2]):
            yield str(argument[2])
        for part in argument if isinstance(argument, tuple | list) else [argument]:
            for inner in part if isinstance(part, list) else [part]:
                if isinstance(inner, reading.SubPattern):
                    yield from repeated(inner)


def wrong(pattern: str | bytes, flags: int = 0) -> list[str]:
    return list(repeated(reading.parse(pattern, flags)))


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a)?+", r"(?:ab)*+", rb"(?:ab|c)++", r"x(?:y(?:ab){1,2}+)?z", r"(?=(?:ab)?+)", r"(?:a|(?:ab)*+)",
        r"(?>(?:ab)*+)", r"(a)?(?(1)(?:ab)*+|c)", r"((?:ab)*+)*", r"(?!(?:ab)?+)",
        r"(?i:(?:ab)?+)", r"(?:a?)*+", r"(?:(?=a))?+",
    ],
)  # fmt: skip
def test_the_scan_sees_what_is_wrong(pattern: str | bytes) -> None:
    assert len(wrong(pattern)) == 1


@pytest.mark.parametrize(
    "pattern", [r"[^:]++ \d{1,9}+(?:a)*+.?+", r"(?>(?:ab)*)", r"(ab)*?(?:cd)+", rb"(?>'.'|[a]++){2,}"]
)
def test_the_scan_lets_pass_what_is_right(pattern: str | bytes) -> None:
    assert wrong(pattern) == []


def sources() -> list[Path]:
    return [path for place in PLACES for path in sorted((ROOT / place).rglob("*.py"))]


def test_no_text_in_the_sources_repeats_a_group_so() -> None:
    found, seen = [], 0
    for path in sources():
        source = path.read_text(encoding="utf-8")
        seen += 1
        for node in ast.walk(ast.parse(source)) if WRITTEN.search(source) else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
                text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
                found += [f"{path.relative_to(ROOT)}:{node.lineno}: {hit[0]}" for hit in WRITTEN.finditer(text)]
    assert found == []
    assert seen > 500


def modules(package: str) -> Iterator[Any]:
    """Yield those modules of a package that have patterns."""
    home = HOMES[package]
    for path in sorted(home.rglob("*.py")):
        if CALLED.search(path.read_text(encoding="utf-8")):
            parts = path.relative_to(home.parent).with_suffix("").parts
            yield importlib.import_module(".".join(parts).removesuffix(".__init__"))


def patterns(module: Any) -> Iterator[tuple[int, Any]]:
    """Yield the line and the value of each pattern in a module that needs nothing but the module's names."""
    for node in ast.walk(ast.parse(Path(module.__file__).read_bytes())):
        if not isinstance(node, ast.Call) or not node.args or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr in FUNCTIONS and isinstance(node.func.value, ast.Name) and node.func.value.id == "re":
            try:
                yield node.lineno, eval(compile(ast.Expression(node.args[0]), "", "eval"), vars(module))
            except (NameError, TypeError):  # put together of what is known where it is used
                continue


@pytest.mark.parametrize("package", HOMES)
def test_no_pattern_repeats_a_group_so(package: str) -> None:
    found, seen = [], 0
    for module in modules(package):
        for line, pattern in patterns(module):
            if isinstance(pattern, str | bytes):
                seen += 1
                found += [f"{module.__name__}:{line}: {group}" for group in wrong(pattern)]
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern):
                seen += 1
                found += [f"{module.__name__}.{name}: {group}" for group in wrong(value.pattern)]
    assert found == []
    assert seen > 5


def put_together() -> None:
    """Make the patterns of a probe's arguments, of what stands before a record, and of names with stars."""
    layout.broken_off.cache_clear()
    for one in (*layout.ANY, layout.BARE):
        layout.broken_off(one)
    specs = ["%d", "0x%x", "%x", "%n", "%pS", "'%c'", '"%s"', "=0x1|1|1"]
    arrays = [f"{{{one},{one}}}" for one in specs[:-1]]
    Arguments([(f"a{i}", spec) for i, spec in enumerate([*specs, *arrays, '"%s"'])])
    for text in (b"*a?c*[b-d]*e", b"a*b*[!c]"):
        glob.glob_expression(text)
        name_glob.globbed(text, ["abc"])


def test_no_pattern_that_is_put_together_repeats_a_group_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a probe's arguments, of what stands before a record within a line, and of names with stars."""
    seen: list[str | bytes] = []
    compiled = re.compile

    def noted(pattern: Any, flags: Any = 0) -> Any:
        seen.append(getattr(pattern, "pattern", pattern))
        return compiled(pattern, flags)

    monkeypatch.setattr(re, "compile", noted)
    put_together()
    assert len(seen) > 2 * len(layout.ANY) + 6
    assert [pattern for pattern in seen if wrong(pattern)] == []
