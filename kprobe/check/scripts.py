"""Statements in a shell script, by this rule:

- what `echo`, `printf` or a here-document gives to a file of a tracefs that takes definitions, filters or triggers, by
  a redirection or through `tee`; the file is known by the last parts of its path, whatever stands before them;
- the definition and the filter of a command `kprobe`;
- all of that in a script that a shell is given: `sudo sh -c 'echo … > …/kprobe_events'`, `eval`;
- any other word that is a whole definition with a name and a place: `PROBE='p:myopen do_sys_openat2'`.

Where the shell would put something else for a part of it, it can't be asked.
"""

from __future__ import annotations

import re

from kprobe.check.lists import is_file, written
from kprobe.check.shell import Command, Word, commands
from kprobe.check.statements import FILTER, Position, Statement, definition, looks_like_definition

_BEFORE = frozenset(
    ["if", "then", "else", "elif", "while", "until", "do", "!", "{", "time", "exec", "sudo", "command", "env", "nohup"]
)
_ASSIGNMENT = re.compile(r"\w+\+?=")
_FETCHES = re.compile(r"\$(?:retval|arg\d+|arg\*|stack\d*|comm|current)\b")
_SHELLS = frozenset(["sh", "bash", "dash", "ksh", "zsh", "su"])
_DEPTH = 5  # of scripts in scripts


def found(text: str, source: str, depth: int = 0) -> list[Statement]:
    """Return the statements of a shell script; `depth` is how many scripts it is in."""
    each = commands(text)
    statements: list[Statement] = []
    for index, command in enumerate(each):
        reader = each[index + 1] if index + 1 < len(each) and each[index + 1].is_piped else None
        statements += _of(command, reader, source, depth)
    return statements


def inside(text: str, position: Position, depth: int = 0) -> list[Statement]:
    """Return the statements of a script that stands in another source; those of its first line are at `position`."""
    return [
        one._replace(
            position=position._replace(line=position.line + one.position.line - 1, column=one.position.column)
            if one.position.line > 1
            else position
        )
        for one in found(text, position.source, depth + 1)
    ]


def _of(command: Command, reader: Command | None, source: str, depth: int) -> list[Statement]:
    words = _bare(command.words)
    name = words[0].text.rpartition("/")[2] if words else ""
    if name == "kprobe":
        return _traced(words, source)
    script = _script(name, words[1:])
    if script is not None and depth < _DEPTH:
        return inside(script.text, _position(script, source), depth)
    targets = _targets(command, reader)
    said = _said(name, words[1:], command)
    if targets and said is not None:
        return _clear(written(targets[-1], said.text, _position(said, source)), said)
    loose = (word._replace(text=_ASSIGNMENT.sub("", word.text, count=1)) for word in command.words)
    return [
        _clear([definition(word.text.strip(), _position(word, source))], word)[0]
        for word in loose
        if looks_like_definition(word.text, has_unknown=bool(word.expands))
    ]


def _script(name: str, words: tuple[Word, ...]) -> Word | None:
    """Return the word that a shell is given as a script; None if it is given none."""
    if name == "eval" and len(words) == 1:
        return words[0]
    if name in _SHELLS:
        options = [index for index, word in enumerate(words) if re.fullmatch(r"-[a-z]*c", word.text)]
        return words[options[0] + 1] if options and options[0] + 1 < len(words) else None
    return None


def _bare(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the words from the command's name on: without keywords, `sudo` and its options, assignments."""
    rest = list(words)
    while rest and (rest[0].text in _BEFORE or _ASSIGNMENT.match(rest[0].text)):
        is_sudo = rest.pop(0).text == "sudo"
        while is_sudo and rest and rest[0].text.startswith("-"):
            rest.pop(0)
    return tuple(rest)


def _targets(command: Command, reader: Command | None) -> list[str]:
    """Return the files that the command's output goes to, which may be of a tracefs."""
    paths = [one.target.text for one in command.redirections if one.operator in (">", ">>", ">|", "&>", "&>>")]
    if reader is not None:
        words = _bare(reader.words)
        if words and words[0].text.rpartition("/")[2] == "tee":
            paths += [word.text for word in words[1:] if not word.text.startswith("-")]
    return [path for path in paths if is_file(path)]


def _said(name: str, words: tuple[Word, ...], command: Command) -> Word | None:
    """Return what a command prints, as far as that is known; None if it isn't."""
    bodies = [one.body for one in command.redirections if one.body is not None]
    if name == "cat":
        return bodies[-1] if bodies else None
    if name not in ("echo", "printf"):
        return None
    rest = list(words)
    if name == "echo":
        while rest and re.fullmatch(r"-[neE]+", rest[0].text):
            rest.pop(0)
    elif len(rest) > 1 and re.fullmatch(r"(?:%[sb](?:\\n)?\s*)+", rest[0].text):
        text = "\n".join(word.text for word in rest[1:])
        return rest[1]._replace(text=text, expands=_first(rest[1:]))
    elif rest:
        rest = [rest[0]._replace(text=rest[0].text.replace("\\n", "\n").replace("%%", "%"))]
    if not rest:
        return None
    return rest[0]._replace(text=" ".join(word.text for word in rest), expands=_first(rest))


def _first(words: list[Word]) -> str:
    return next((word.expands for word in words if word.expands), "")


def _traced(words: tuple[Word, ...], source: str) -> list[Statement]:
    """Return what a command `kprobe` asks for; nothing if its options make no sense."""
    from kprobe.words.options import UsageError, read_options

    try:
        request = read_options([word.text for word in words[1:]])
    except UsageError:
        return []
    statements = []
    for text in (*request.definitions, request.filter):
        if not text:
            continue
        word = next(word for word in words[1:] if word.text == text)
        position = _position(word, source)
        if text in request.definitions:
            one = definition(text, position, is_short=True)
        else:
            one = Statement(FILTER, text, FILTER, position)
        statements += _clear([one], word)
    return statements


def _position(word: Word, source: str) -> Position:
    return Position(source, word.line, word.column)


def _clear(statements: list[Statement], word: Word) -> list[Statement]:
    """Return the statements with what keeps them from being asked: the shell's expansions in the word."""
    if not word.expands:
        return statements
    because = f"the shell puts something else for {word.expands}"
    if _FETCHES.match(word.expands):
        because += "; single quotes keep it"
    return [one._replace(unclear=because) if word.expands in one.text else one for one in statements]
