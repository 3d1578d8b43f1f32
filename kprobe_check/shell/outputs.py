"""What a command of a script prints, as far as that is known, and what a command `kprobe` asks for."""

from __future__ import annotations

import re

from kprobe_check.shell.printing import Unclear, echo, printf
from kprobe_check.statement import FILTER, Position, Statement, definition
from kprobe_check.texts import Text, unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_FETCHES = re.compile(r"\$(?:retval|arg\d+|arg\*|stack\d*|comm|current)\b")


def said(name: str, rest: Sequence[Text], *, is_bash: bool | None) -> list[Text]:
    """Return the lines that echo or printf prints, in bash, in another shell, or in one of which that isn't known."""
    each = [field.text for field in rest[1:]]
    unknowns = tuple(dict.fromkeys(one for field in rest[1:] for one in field.unknowns))
    because = next((field.because for field in rest[1:] if field.because), "")
    position = rest[1].position if len(rest) > 1 else rest[0].position
    run = echo if name == "echo" else printf
    try:
        said = run(each, is_bash=is_bash is not False)
        is_clear = is_bash or (is_bash is None and each[:1] and re.fullmatch("-[nE]*e[neE]*", each[0]))
        if not is_clear and run(each, is_bash=is_bash is False) != said:
            raise Unclear(f"{name} isn't the same in every sh: bash and dash differ about what has a backslash")
    except Unclear as error:
        return [Text(" ".join(each), (*unknowns, *each), position, str(error))]
    if name == "echo" and len(rest) > 1:
        position = next((field.position for field in rest[1:] if not re.fullmatch("-[neE]+", field.text)), position)
    return _lines(said, rest[1:], unknowns, position, because)


def _lines(
    said: str, fields: Sequence[Text], unknowns: tuple[str, ...], position: Position, because: str
) -> list[Text]:
    """Return the lines of what is printed, each where the word begins that it is, or, in one long word, where it is."""
    starts = {field.text.strip(): field.position for field in reversed(fields)}
    whole = next((field for field in fields if said.strip("\n") == field.text.strip("\n") and "\n" in said), None)
    found = []
    for number, line in enumerate(said.split("\n") if said else [""]):
        there = starts.get(line.strip(), position)
        if whole is not None and number:
            there = position._replace(line=position.line + number, column=1 + len(line) - len(line.lstrip()))
        if line or not number:
            found.append(Text(line, unknowns, there, because))
    return found


def printed(rest: Sequence[Text]) -> Text:
    """Return what a command prints of which it isn't known what it does."""
    command = " ".join(field.text for field in rest)
    said = unknown(f"$({command})", rest[0].position)
    return said._replace(because=f"what `{said.text[2:].removesuffix(')')}` prints isn't known")


def traced(rest: Sequence[Text]) -> list[Statement]:
    """Return what a command `kprobe` asks for; nothing if its options make no sense."""
    from kprobe.options.command_line import UsageError, read_options

    try:
        request = read_options([field.text for field in rest[1:]])
    except UsageError:
        return []
    statements = []
    for text in (*request.definitions, request.filter):
        if not text:
            continue
        field = next(field for field in rest[1:] if field.text == text)
        if text in request.definitions:
            one = definition(text, field.position, is_short=True)
        else:
            one = Statement(FILTER, text, FILTER, field.position)
        statements.append(clear(one, field))
    return statements


def clear(statement: Statement, said: Text) -> Statement:
    """Return a statement with what keeps it from being asked."""
    name = next((name for name in said.unknowns if name in statement.text), "")
    if not name or statement.unclear:
        return statement
    because = said.because or f"the shell puts something else for {name}"
    if not said.because and _FETCHES.match(name):
        because += "; single quotes keep it"
    return statement._replace(unclear=because)
