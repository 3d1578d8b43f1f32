"""Files and texts -> their statements, by the reader of their form, without those under `# kprobe: ignore`."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from kprobe.errors import KprobeError
from kprobe_check.sources import documents, lists
from kprobe_check.sources.limit import SECONDS, SECONDS_PER_BYTE, TookTooLong, limited
from kprobe_check.sources.programs import compiled, python
from kprobe_check.sources.programs.literals import GO, PERL, RUST, C, MissingLibrary
from kprobe_check.sources.shell import scripts
from kprobe_check.statement import Statement, linked

LIST, SHELL, PYTHON, MARKDOWN = "list", "shell", "python", "markdown"
FORMS = (LIST, SHELL, PYTHON, GO, C, RUST, PERL, MARKDOWN)
_READERS: dict[str, Callable[[str, str], list[Statement]]] = {
    LIST: lists.statements_in,
    SHELL: scripts.statements_in,
    PYTHON: python.statements_in,
    MARKDOWN: documents.statements_in,
    **{language: partial(compiled.statements_in, language=language) for language in (GO, C, RUST, PERL)},
}
_ENDINGS = {
    **dict.fromkeys((".sh", ".bash", ".ksh", ".zsh", ".bats", ".tc"), SHELL),  # .tc: the kernel's ftracetest
    **dict.fromkeys((".py", ".pyi"), PYTHON),
    ".go": GO,
    **dict.fromkeys((".c", ".h", ".cc", ".cpp", ".cxx", ".c++", ".hh", ".hpp", ".hxx"), C),
    ".rs": RUST,
    **dict.fromkeys((".pl", ".pm", ".t"), PERL),
    **dict.fromkeys((".md", ".markdown"), MARKDOWN),
}
READ = (
    "lists of definitions, shell scripts (.sh .bash .ksh .zsh .bats .tc, #!), Python (.py, #!); with kprobe-sim[check] "
    "Go (.go), C and C++ (.c .h .cc .cpp .hpp …), Rust (.rs), Perl (.pl .pm .t, #!), Markdown (.md)"
)
_IGNORE = re.compile(r"(?:#|//|<!--)\s*kprobe:\s*ignore\b")
_ALONE = re.compile(r"\s*(?:#|//|<!--)\s*kprobe:\s*ignore\b.*")
LONGEST = 16 << 20  # bytes of a source; nobody writes one by hand


class BadSource(KprobeError):
    """A source can't be read in its form; `source` and `line` say where."""

    def __init__(self, source: str, because: str, line: int = 0) -> None:
        super().__init__(f"{source}:{line}: {because}" if line else f"{source}: {because}")
        self.source = source
        self.line = line


def form(name: str, text: str) -> str:
    """Return a source's form: by the end of its name, by its first line (`#!`), else a list; "" if unknown."""
    ending = name[name.rfind(".") :].lower() if "." in name.rpartition("/")[2] else ""
    if ending in _ENDINGS:
        return _ENDINGS[ending]
    first = text.partition("\n")[0]
    if first.startswith("#!"):
        for pattern, found in ((r"python[\d.]*", PYTHON), (r"(?:ba|da|mk|k|z|a)?sh", SHELL), (r"perl[\d.]*", PERL)):
            if re.search(rf"\b{pattern}(?![\w.])", first):
                return found
        return ""
    return LIST


def statements(data: bytes, source: str, as_form: str = "") -> list[Statement]:
    """Return a source's statements, without ignored ones, each with its needs, in the source's order.

    `as_form` is one of `FORMS`, by default the form by the name and the first line.  Raise `BadSource`.
    """
    text = _text(data, source)
    kind = as_form or form(source, text)
    if not kind:
        raise BadSource(
            source, f"kprobe check doesn't read what {text.partition(chr(10))[0][:60]!r} reads; it reads {READ}"
        )
    if kind == LIST and not as_form:
        _demand_list(text, source)
    try:
        with limited(most := SECONDS + SECONDS_PER_BYTE * len(data)):
            found = linked(_READERS[kind](text, source))
    except TookTooLong:
        because = f"not asked: reading it took more than {most:.0f} s, as what has no end does"
        raise BadSource(source, because) from None
    except python.NotPython as error:
        raise BadSource(source, f"not Python: {error}", error.line) from None
    except MissingLibrary:
        raise BadSource(source, f"to read {kind} takes the extra [check]: pip install 'kprobe-sim[check]'") from None
    found.sort(key=lambda one: (one.position.line, one.position.column))
    return found if not _IGNORE.search(text) else _kept(found, text.split("\n"))


def _text(data: bytes, source: str) -> str:
    if len(data) > LONGEST:
        raise BadSource(source, f"too long: {len(data)} bytes")
    if b"\0" in data:
        raise BadSource(source, "not text: it holds a NUL", data[: data.index(b"\0")].count(b"\n") + 1)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise BadSource(source, "not text: it isn't UTF-8", data[: error.start].count(b"\n") + 1) from None
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _demand_list(text: str, source: str) -> None:
    """Raise `BadSource` if a line of a text can't be a line of a list."""
    for number, line in enumerate(text.split("\n"), 1):
        if not lists.is_line(line):
            shown = line.strip()
            shown = shown if len(shown) <= 60 else f"{shown[:59]}…"
            raise BadSource(source, f"not a list of definitions: {shown!r} is none; kprobe check reads {READ}", number)


def _kept(found: list[Statement], lines: list[str]) -> list[Statement]:
    """Return the statements without `# kprobe: ignore` on their line, or alone on the line before."""
    return [one for one in found if not _is_ignored(one.position.line - 1, lines)]


def _is_ignored(index: int, lines: list[str]) -> bool:
    here = index < len(lines) and _IGNORE.search(lines[index]) is not None
    return here or (index > 0 and _ALONE.fullmatch(lines[index - 1]) is not None)
