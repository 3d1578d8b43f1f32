"""tools/docs/document_types.py: the blocks of the documents as modules, and what mypy says of them by page and line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "docs" / "document_types.py"
PAGE = """\
# A page

```python
# opens.py
def opens() -> int:
    return 3
```

Then:

```python
from opens import opens

print(opens() + "x")
```
```text
3
```
"""


@pytest.fixture
def tool(loaded: Callable[[Path], ModuleType]) -> ModuleType:
    return loaded(TOOL)


def test_a_block_is_a_module_whose_lines_have_their_numbers(tool: ModuleType) -> None:
    assert list(tool.modules("docs/page.md", PAGE)) == [
        ("opens", "\n\n\n# opens.py\ndef opens() -> int:\n    return 3\n"),
        ("docs_page_md_12", "\n" * 11 + 'from opens import opens\n\nprint(opens() + "x")\n'),
    ]


def test_errors_are_told_by_page_and_line(tool: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text(PAGE)
    status, said = tool.checked(tmp_path, ("--config-file=", "--strict", f"--cache-dir={tmp_path}"))
    assert (status, said) == (
        1, 'docs/page.md:14: error: Unsupported operand types for + ("int" and "str")  [operator]\n',
    )  # fmt: skip


def test_two_blocks_of_the_same_name_are_refused(tool: ModuleType, tmp_path: Path) -> None:
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text("```python\n# opens.py\n```\n")
    assert tool.checked(tmp_path) == (1, "b.md: a.md has a opens.py, too\n")
