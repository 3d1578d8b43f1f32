"""The output of a script's command, as far as known, and the statements of a command `kprobe`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kprobe_check.sources.shell.printing import Unclear, echo, printf
from kprobe_check.sources.texts import Text, unknown
from kprobe_check.statement import FILTER, Position, Statement, definition

_FETCHES = re.compile(r"\$(?:retval|arg\d+|arg\*|stack\d*|comm|current)\b")


def printed_lines(name: str, words: Sequence[Text], *, is_bash: bool | None) -> list[Text]:
    """Return the lines that echo or printf prints in bash, in another shell, or in an unknown one."""
    each = [field.text for field in words[1:]]
    unknowns = tuple(dict.fromkeys(one for field in words[1:] for one in field.unknowns))
    because = next((field.because for field in words[1:] if field.because), "")
    position = words[1].position if len(words) > 1 else words[0].position
    run = echo if name == "echo" else printf
    try:
        output = run(each, is_bash=is_bash is not False)
        is_clear = is_bash or (is_bash is None and each[:1] and re.fullmatch("-[nE]*e[neE]*", each[0]))
        if not is_clear and run(each, is_bash=is_bash is False) != output:
            raise Unclear(f"{name} doesn't print the same in every sh: bash and dash treat backslashes differently")
    except Unclear as error:
        return [Text(" ".join(each), (*unknowns, *each), position, str(error))]
    if name == "echo" and len(words) > 1:
        position = next((field.position for field in words[1:] if not re.fullmatch("-[neE]+", field.text)), position)
    return _lines(output, words[1:], unknowns, position, because)


def _lines(
    output: str, fields: Sequence[Text], unknowns: tuple[str, ...], position: Position, because: str
) -> list[Text]:
    """Return the printed lines, each at the position of its word or, in one long word, at its own."""
    starts = {field.text.strip(): field.position for field in reversed(fields)}
    block = next((field for field in fields if output.strip("\n") == field.text.strip("\n") and "\n" in output), None)
    lines = []
    for number, line in enumerate(output.split("\n") if output else [""]):
        there = starts.get(line.strip(), position)
        if block is not None and number:
            there = position._replace(line=position.line + number, column=1 + len(line) - len(line.lstrip()))
        if line or not number:
            lines.append(Text(line, unknowns, there, because))
    return lines


def unknown_output(words: Sequence[Text]) -> Text:
    """Return the unknown output of an unknown command."""
    command = " ".join(field.text for field in words)
    output = unknown(f"$({command})", words[0].position)
    return output._replace(because=f"what `{output.text[2:].removesuffix(')')}` prints isn't known")


def traced(words: Sequence[Text]) -> list[Statement]:
    """Return the statements of a command `kprobe`; none if its options make no sense."""
    from kprobe.options.command_line import UsageError, read_options

    try:
        request = read_options([field.text for field in words[1:]])
    except UsageError:
        return []
    statements = []
    for text in (*request.definitions, request.filter):
        if not text:
            continue
        field = next(field for field in words[1:] if field.text == text)
        if text in request.definitions:
            one = definition(text, field.position, is_short=True)
        else:
            one = Statement(FILTER, text, FILTER, field.position)
        statements.append(clear(one, field))
    return statements


def replaced(name: str) -> str:
    """Say why a text with a name can't be asked: only the shell knows its value."""
    return f"the shell replaces {name} with something else"


def clear(statement: Statement, output: Text) -> Statement:
    """Return a statement with the reason why it can't be asked."""
    name = next((name for name in output.unknowns if name in statement.text), "")
    if not name or statement.unclear:
        return statement
    because = output.because or replaced(name)
    if not output.because and _FETCHES.match(name):
        because += "; single quotes keep it"
    return statement._replace(unclear=because)
