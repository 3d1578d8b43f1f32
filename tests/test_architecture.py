"""Who may import whom: the edges of ARCHITECTURE.md and no other, read from the source."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HOMES = {"kprobe": ROOT / "kprobe", "kprobe_sim": ROOT / "kprobe_sim", "kprobe_vm": ROOT / "vm" / "kprobe_vm"}

# Beside the standard library and the package itself: (package, glob of files in it) -> what they may import.
ALLOWED = [
    ("kprobe_sim", "pytest_plugin.py", {"pytest", "kprobe"}),
    ("kprobe_sim", "expose/python/*.py", {"pyfakefs"}),
    ("kprobe_vm", "*.py", {"qemu", "pexpect"}),
    ("kprobe_vm", "record*.py", {"capstone"}),
    ("kprobe_vm", "instructions.py", {"capstone"}),  # the recorder's disassembler
    ("kprobe_vm", "shrink.py", {"hypothesis"}),  # the campaign's search for the smallest case
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
    allowed = set(sys.stdlib_module_names) | {package}
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
def test_no_module_is_longer_than_400_lines(package: str) -> None:
    long = {
        str(path.name): len(path.read_text(encoding="utf-8").splitlines())
        for owner, path in modules()
        if owner == package
    }
    assert {name: lines for name, lines in long.items() if lines > 400} == {}
