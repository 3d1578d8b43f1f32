"""Files and texts, and the statements in them: lists, shell scripts, Python; minus those under `# kprobe: ignore`."""

from __future__ import annotations

import re

from kprobe.check import lists, programs, scripts
from kprobe.check.statements import Statement, linked
from kprobe.errors import KprobeError

LIST, SHELL, PYTHON = "list", "shell", "python"
FORMS = (LIST, SHELL, PYTHON)
_READERS = {LIST: lists.found, SHELL: scripts.found, PYTHON: programs.found}
_ENDINGS = {".sh": SHELL, ".bash": SHELL, ".ksh": SHELL, ".zsh": SHELL, ".bats": SHELL, ".py": PYTHON, ".pyi": PYTHON}
_IGNORE = re.compile(r"#\s*kprobe:\s*ignore\b")
_ALONE = re.compile(r"\s*#\s*kprobe:\s*ignore\b.*")
LONGEST = 16 << 20  # bytes of a source; nobody writes one by hand


class BadSource(KprobeError):
    """A source can't be read as what it should be; `source` and `line` say where."""

    def __init__(self, source: str, because: str, line: int = 0) -> None:
        super().__init__(f"{source}:{line}: {because}" if line else f"{source}: {because}")
        self.source = source
        self.line = line


def form(name: str, text: str) -> str:
    """Return what a source is: by the end of its name, by its first line (`#!`), else a list."""
    ending = name[name.rfind(".") :].lower() if "." in name.rpartition("/")[2] else ""
    if ending in _ENDINGS:
        return _ENDINGS[ending]
    first = text.partition("\n")[0]
    if first.startswith("#!"):
        if re.search(r"\bpython[\d.]*\b", first):
            return PYTHON
        if re.search(r"\b(?:ba|da|k|z|a)?sh\b", first):
            return SHELL
    return LIST


def statements(data: bytes, source: str, as_form: str = "") -> list[Statement]:
    """Return the statements of a source that nobody said to ignore, each with what it needs.

    `as_form` is one of `FORMS`, by default what the name and the first line say.  Raise `BadSource`.
    """
    if len(data) > LONGEST:
        raise BadSource(source, f"too long: {len(data)} bytes")
    if b"\0" in data:
        raise BadSource(source, "not text: it holds a NUL", data[: data.index(b"\0")].count(b"\n") + 1)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise BadSource(source, "not text: it isn't UTF-8", data[: error.start].count(b"\n") + 1) from None
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    kind = as_form or form(source, text)
    try:
        found = _READERS[kind](text, source)
    except programs.NotPython as error:
        raise BadSource(source, f"not Python: {error}", error.line) from None
    return linked(found) if not _IGNORE.search(text) else _kept(linked(found), text.split("\n"))


def _kept(found: list[Statement], lines: list[str]) -> list[Statement]:
    """Return the statements but those with `# kprobe: ignore` on their line, or alone on the line before."""
    return [one for one in found if not _is_ignored(one.position.line - 1, lines)]


def _is_ignored(index: int, lines: list[str]) -> bool:
    here = index < len(lines) and _IGNORE.search(lines[index]) is not None
    return here or (index > 0 and _ALONE.fullmatch(lines[index - 1]) is not None)
