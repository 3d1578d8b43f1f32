"""Statements in Markdown: in its blocks of code, read by the reader of their language.

In a block with prompts (`$ `, `# `) only text after them is a command, and all else is output.  A block without a known
language is read as a shell's, with lines that are definitions by themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kprobe_check.sources import lists
from kprobe_check.sources.programs import compiled, python
from kprobe_check.sources.programs.literals import GO, PERL, RUST, C, MissingLibrary
from kprobe_check.sources.shell import scripts
from kprobe_check.statement import Position, Statement, looks_like_definition

_LANGUAGES = {
    **dict.fromkeys(("go", "golang"), GO),
    **dict.fromkeys(("c", "cpp", "c++", "cc", "h", "cxx"), C),
    **dict.fromkeys(("rust", "rs"), RUST),
    **dict.fromkeys(("perl", "pl"), PERL),
}
_PYTHON = frozenset(["python", "py", "python3"])
_OTHERS = frozenset(
    [
        "json",
        "yaml",
        "yml",
        "toml",
        "ini",
        "xml",
        "html",
        "css",
        "diff",
        "make",
        "makefile",
        "sql",
        "java",
        "javascript",
        "js",
        "ts",
    ]
)
_PROMPT = re.compile(r"\s*(?:\(\w+\) ?)?(?:[\w.@~:/-]*+(?:\[[^\]]*\])?)(?: ?[~/][\w/.-]*)? ?[#$] (?=\S)|\s*> (?=\S)")
_COMMENT = re.compile(r"\s*# [A-Z][a-z]+\b")


def statements_in(text: str, source: str) -> list[Statement]:
    """Return the statements of a document.  Raise `MissingLibrary`."""
    statements: list[Statement] = []
    for language, block, line in _blocks(text):
        statements += [_shifted(one, line, text) for one in _in_block(language, block, source)]
    return statements


def _blocks(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield blocks of code: the language, the text, and the number of lines before it."""
    try:
        from markdown_it import MarkdownIt
    except ImportError:
        raise MissingLibrary from None
    for token in MarkdownIt().parse(text):
        if token.type in ("fence", "code_block") and token.map:
            language = (token.info.split() or [""])[0].strip("{}.").lower()
            yield language, token.content, token.map[0] + (token.type == "fence")


def _shifted(statement: Statement, lines: int, text: str) -> Statement:
    where = statement.position
    return statement._replace(position=where._replace(line=where.line + lines))


def _in_block(language: str, block: str, source: str) -> list[Statement]:
    if language in _OTHERS:
        return []
    if language in _LANGUAGES:
        return compiled.statements_in(block, source, _LANGUAGES[language])
    if language in _PYTHON:
        try:
            return python.statements_in(block, source)
        except python.NotPython:
            return []
    return _console(block, source)


def _console(block: str, source: str) -> list[Statement]:
    """Return the statements of a shell session or a script."""
    lines = block.split("\n")
    prompted = [_PROMPT.match(line) for line in lines]
    if any(one and not _COMMENT.match(line) for one, line in zip(prompted, lines, strict=True)):
        lines = _typed(lines)
    each = scripts.statements_in("\n".join(lines), source)
    known = {one.position.line for one in each}
    for number, line in enumerate(lines, 1):
        if number not in known and looks_like_definition(line):
            one = lists.statement(line, Position(source, number))
            each += [] if one is None else [one]
    return sorted(each, key=lambda one: (one.position.line, one.position.column))


def _typed(lines: list[str]) -> list[str]:
    """Return the lines of a session with only the typed text, in its position."""
    typed: list[str] = []
    goes_on = False
    end = ""
    for line in lines:
        statements_in = _PROMPT.match(line)
        is_kept = (
            bool(end)
            or goes_on
            or (statements_in is not None and (line.strip()[:2] != "> " or bool(typed and typed[-1])))
        )
        said = line if end or statements_in is None else " " * statements_in.end() + line[statements_in.end() :]
        typed.append(said if is_kept else "")
        if end:
            end = "" if line.strip() == end else end
            continue
        here = re.search(r"<<-?\s*[\'\"]?(\w+)", said) if is_kept else None
        end = here[1] if here else ""
        goes_on = is_kept and (said.endswith("\\") or said.count("'") % 2 == 1)
    return typed
