"""Events made without `Event(…)`, for speed: their tuples are spelled with the names of the fields, in order."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from kprobe_text.text import Event

PACKAGE = Path(__file__).parents[2] / "kprobe_text"


@pytest.mark.parametrize("module", ["text/fast_path.py", "pages/page.py"])
def test_tuples_name_the_fields_of_an_event(module: str) -> None:
    calls = [
        node
        for node in ast.walk(ast.parse((PACKAGE / module).read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("new", "_new")
    ]
    assert len(calls) == 1
    assert tuple(ast.unparse(calls[0].args[1]).strip("()").split(", ")) == Event._fields
