"""Developers run `make check`, which runs it: mypy --strict on the Python in README.md and in every page.

    tools/docs/document_types.py

Users copy these blocks into projects that are checked strictly.  A block is a module.  A block whose first line is
`# NAME.py` has that name, and other blocks can import it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("*.md", "docs/**/*.md", "tests/*.md", "distributions/*/*.md", "fixtures/**/*.md")
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"# (\w+)\.py\n")


def modules(page: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the source of each block of a page, whose lines have the numbers that they have there."""
    for block in _BLOCK.finditer(text):
        above = text.count("\n", 0, block.start(1))
        named = _NAME.match(block[1])
        name = named[1] if named else re.sub(r"\W", "_", f"{page}_{above + 1}")
        yield name, "\n" * above + block[1]


def checked(root: Path, options: tuple[str, ...] = ()) -> tuple[int, str]:
    """Return mypy's status, and what it says of all pages below a directory, by their names and lines."""
    pages = sorted(path for place in PLACES for path in root.glob(place))
    page_of: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as directory:
        for path in pages:
            page = str(path.relative_to(root))
            for name, source in modules(page, path.read_text("utf-8")):
                if name in page_of:
                    return 1, f"{page}: {page_of[name]} has a {name}.py, too\n"
                page_of[name] = page
                Path(directory, f"{name}.py").write_text(source, "utf-8")
        command = [sys.executable, "-m", "mypy", "--no-error-summary", *options]
        done = subprocess.run(
            [*command, *(f"{directory}/{name}.py" for name in page_of)],
            cwd=ROOT,  # whose configuration and cache are those of the packages
            capture_output=True,
            text=True,
        )
    said = re.sub(rf"{re.escape(directory)}/(\w+)\.py", lambda found: page_of[found[1]], done.stdout)
    return done.returncode, f"{said}{done.stderr}" or f"Success: {len(page_of)} blocks of Python in the documents\n"


def main() -> int:
    """Print it, and return the status."""
    status, said = checked(ROOT)
    print(said, end="")
    return status


if __name__ == "__main__":
    sys.exit(main())
