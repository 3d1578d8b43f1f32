"""Who may import whom: the edges of ARCHITECTURE.md and no other, read from the source."""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import import_scan as scan

ROOT = Path(__file__).parent.parent
HOMES = scan.HOMES
PACKAGES = scan.declared()["packages"]

# Beside the standard library and the package itself: (package, glob of files in it) -> what they may import.
ALLOWED = [
    ("kprobe_text", "columns/*.py", {"pyarrow", "numpy", "numba"}),  # imported by `kprobe parse` when it is asked for
    ("kprobe_text", "parse/source.py", {"zstandard"}),
    ("kprobe_text", "terminal/meter.py", {"tqdm"}),  # a bar on a terminal
    ("kprobe", "completion/*.py", {"argcomplete"}),  # imported when a shell asks, and for its code
    ("kprobe", "views/screen.py", {"rich"}),  # the screen of `kprobe top`
    ("kprobe_corpus", "breaking/search.py", {"hypothesis"}),  # draws what a parser is tried on
    ("kprobe_check", "programs/literals.py", {"pygments"}),  # imported for sources in the languages that it tells apart
    ("kprobe_check", "documents.py", {"markdown_it"}),  # imported for Markdown
    ("kprobe_sim", "pytest_plugin/*.py", {"pytest", "kprobe", "kprobe_text", "kprobe_corpus"}),
    ("kprobe_sim", "completion.py", {"argcomplete"}),
    ("kprobe_sim", "expose/python/*.py", {"pyfakefs"}),
    ("kprobe_vm", "completion.py", {"argcomplete"}),
    ("kprobe_vm", "machine/*.py", {"qemu", "pexpect"}),
    ("kprobe_vm", "recording/instructions.py", {"capstone"}),  # the recorder's disassembler
    ("kprobe_lab", "scheduling/cluster.py", {"distributed"}),  # the distributed engine: here, and on its workers
    ("kprobe_lab", "scheduling/member.py", {"distributed"}),
    ("kprobe_lab", "campaign/shrink.py", {"hypothesis"}),  # the campaign's search for the smallest case
]


def modules() -> list[tuple[str, Path]]:
    return [(package, path) for package, home in HOMES.items() for path in sorted(home.rglob("*.py"))]


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, top-level package) of every import of a file, but not the relative ones."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.lineno, str(node.module).partition(".")[0]


def foreign(package: str, path: Path) -> list[str]:
    inside = path.relative_to(HOMES[package])
    allowed = set(sys.stdlib_module_names) | {package, *PACKAGES[package]}
    for owner, glob, names in ALLOWED:
        if owner == package and inside.match(glob):
            allowed |= names
    return [f"{inside}:{line}: {name}" for line, name in imported(path) if name not in allowed]


def test_there_is_something_to_scan() -> None:
    assert {package for package, _ in modules()} == set(HOMES)
    assert len(modules()) > 60


@pytest.mark.parametrize("package", HOMES)
def test_imports(package: str) -> None:
    assert [line for owner, path in modules() if owner == package for line in foreign(package, path)] == []


def test_the_scan_sees_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("import os\ndef f():\n    from kprobe_sim import SimulatedKernel\n    import capstone as c\n")
    monkeypatch.setitem(HOMES, "kprobe", tmp_path)
    assert foreign("kprobe", bad) == ["bad.py:3: kprobe_sim", "bad.py:4: capstone"]


@pytest.mark.parametrize("package", HOMES)
def test_no_module_is_longer_than_600_lines(package: str) -> None:
    long = {
        str(path.name): len(path.read_text(encoding="utf-8").splitlines())
        for owner, path in modules()
        if owner == package
    }
    assert {name: lines for name, lines in long.items() if lines > 600} == {}


@pytest.mark.parametrize("package", HOMES)
def test_no_package_has_more_than_12_rooms(package: str) -> None:
    rooms = [path.parent.name for path in HOMES[package].glob("*/__init__.py")]
    assert len(rooms) <= 12, rooms


def type_names(path: Path) -> Iterator[str]:
    """Yield the names of a module's classes and of its aliases for types."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    yield from (node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    for node in tree.body:
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Name) and re.fullmatch("_?[A-Z][a-z][A-Za-z]*", target.id):
                yield target.id


def ambiguous(home: Path) -> dict[str, list[str]]:
    """Return the names of types that several modules of a package have, with the modules."""
    found: dict[str, list[str]] = {}
    for path in sorted(home.rglob("*.py")):
        for name in set(type_names(path)):
            found.setdefault(name, []).append(path.relative_to(home).as_posix())
    return {name: paths for name, paths in found.items() if len(paths) > 1}


@pytest.mark.parametrize("package", HOMES)
def test_a_type_name_means_one_thing_in_a_package(package: str) -> None:
    assert ambiguous(HOMES[package]) == {}


def test_the_scan_sees_a_name_with_two_meanings(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("class Place:\n    class _Row: ...\nRead = int\nTABLE = 1\n")
    (tmp_path / "other.py").write_text("def f():\n    class _Row: ...\nclass Read: ...\nTABLE = 1\n")
    assert ambiguous(tmp_path) == {"_Row": ["one.py", "other.py"], "Read": ["one.py", "other.py"]}


# the layers: layers.toml, compared with the source by import_scan.py


LAYERS = scan.layers()
edges = functools.cache(scan.edges)


@pytest.mark.parametrize("package", LAYERS)
def test_every_module_has_a_layer(package: str) -> None:
    assert scan.homeless(scan.modules(HOMES[package]), LAYERS[package]) == []


@pytest.mark.parametrize("package", LAYERS)
def test_nothing_is_imported_from_above(package: str) -> None:
    assert scan.upward(edges(HOMES[package]), LAYERS[package]) == []


@pytest.mark.parametrize("package", LAYERS)
def test_no_modules_import_each_other_in_a_circle(package: str) -> None:
    assert scan.circles(edges(HOMES[package])) == []


def test_every_line_of_the_order_is_needed() -> None:
    for package, order in LAYERS.items():
        found = {scan.layer_of(module, order) for module in scan.modules(HOMES[package])}
        assert found - {None} == set(range(len(order))), package


def test_every_package_says_what_it_is() -> None:
    """What lives there, what it may use, where to start reading."""
    for package, order in LAYERS.items():
        for layer in order:
            directory = HOMES[package] / layer.name.replace(".", "/")
            if not layer.members:
                text = ast.get_docstring(ast.parse((directory / "__init__.py").read_text(encoding="utf-8"))) or ""
                assert len(text.splitlines()) > 1, directory


def test_the_scan_sees_what_is_wrong(tmp_path: Path) -> None:
    home = tmp_path / "pack"
    for name, text in {
        "__init__.py": "",
        "ground/__init__.py": "",
        "ground/low.py": "def f():\n    from pack.roof.high import g\n",
        "roof/__init__.py": "",
        "roof/high.py": (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pack.ground import low\n"
            "import pack.roof.other\n"
        ),
        "roof/other.py": "import pack.roof.high as h\n",
        "stray.py": "",
    }.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    order = (scan.Layer("ground"), scan.Layer("roof"))
    assert scan.homeless(scan.modules(home), order) == ["pack.stray"]
    assert scan.upward(scan.edges(home), order) == ["pack.ground.low imports g of pack.roof.high"]
    assert scan.circles(scan.edges(home)) == [["pack.ground.low", "pack.roof.high", "pack.roof.other"]]
