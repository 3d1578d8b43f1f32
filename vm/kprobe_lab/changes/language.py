"""The language of operations: shell lines as people write them on a tracefs, bare definitions, filters and triggers.

A line is one of

    p:x vfs_read a=$arg1        a definition (p r - to kprobe_events, or uprobe_events where a path follows; e f t s to
                                dynamic_events), as it is
    prev_pid == 1, stacktrace   a filter, or a trigger, of the event that is given beside it
    COMMAND; COMMAND && ...     what a shell does, in that order:

    echo [-n] 'TEXT' > FILE     or >>, or `| tee [-a] FILE`        cat FILE     ls DIR     stat -c %a FILE
    cd DIR                      mkdir DIR     rmdir DIR

`sudo` before a command is passed over, and so are /sys/kernel/tracing/ and /sys/kernel/debug/tracing/ before a path.
Quotes and backslashes are those of a shell; what a shell would expand or leave to other programs is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from kprobe_lab.operations.operation import List, Make, Operation, Read, Remove, Write

EVENT = "sched/sched_process_exec"  # the event of a bare filter or trigger, unless another is given
_ROOTS = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
_TRIGGER = re.compile(r"!?(?:hist|stacktrace|traceon|traceoff|snapshot|(?:en|dis)able_(?:event|hist))(?:[: ]|$)")
_DEFINITION = re.compile(r"\s*(?:([prefts])\w*(?::|\s+(?![=!<>&~]))|-:?\w)")
_FILTER = re.compile(r"[=!<>&~]")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_NO_FILTER = re.compile(r";|>>|(?<!\|)\|(?!\|)")  # outside of quotes
_AT_PATH = re.compile(r"\s*[pr]\S*\s+/")
_WORD = re.compile(
    r"\s+|&&|\|\||>>|[;|<>&\n]|(?P<word>(?:'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.|[^\s;|<>&'\"\\])+)|.", re.DOTALL
)
_PIECE = re.compile(r"'([^']*)'|\"((?:\\.|[^\"\\])*)\"|\\(.)|([^'\"\\]+)", re.DOTALL)
_ESCAPED = re.compile(r"\\([$`\"\\])")
_ENDS = (";", "&&", "\n")


class BadOperation(ValueError):
    """A line that isn't an operation; the text says why."""


class Mode(NamedTuple):
    """The permission bits of a file."""

    path: str


Step = Operation | Mode


def parsed(line: str, event: str = EVENT) -> tuple[Step, ...]:
    """Return the steps of a line; `event` is the event of a bare filter or trigger.

    Raise `BadOperation` for a line that isn't of the language.
    """
    first = line.split()[0] if line.strip() else ""
    if not first:
        raise BadOperation("nothing to do")
    if first in _VERBS or first in ("sudo", "cd"):
        if steps := tuple(_Reader(line).steps()):
            return steps
        raise BadOperation("nothing to do")
    if _TRIGGER.match(line):
        return (Write(f"events/{event}/trigger", _newline(line), os.O_WRONLY | os.O_APPEND),)
    if found := _DEFINITION.match(line):
        path = (
            "dynamic_events"
            if (found[1] or "p") in "efts"
            else "uprobe_events"
            if _AT_PATH.match(line)
            else "kprobe_events"
        )
        return (Write(path, _newline(line), os.O_WRONLY | os.O_APPEND),)
    if _FILTER.search(line) and not _NO_FILTER.search(_QUOTED.sub("", line)):
        return (Write(f"events/{event}/filter", _newline(line)),)
    verbs = ", ".join(_VERBS)
    raise BadOperation(f"{first!r} isn't a command ({verbs}, cd), and the line isn't a definition, filter or trigger")


def shell(steps: tuple[Step, ...]) -> str:
    """Return steps as a line for a shell whose working directory is the tracefs."""
    return "; ".join(map(_shell, steps))


def _shell(step: Step) -> str:
    match step:
        case Write(path, data, flags):
            text = data.decode("latin-1")
            option = "" if text.endswith("\n") else "-n "
            arrow = ">>" if flags & os.O_APPEND else ">"
            return f"echo {option}{_quoted(text.removesuffix(chr(10)))} {arrow} {path}"
        case Read(path):
            return f"cat {path}"
        case List(path):
            return f"ls {path or '.'}"
        case Make(path):
            return f"mkdir {path}"
        case Remove(path):
            return f"rmdir {path}"
        case Mode(path):
            return f"stat -c %a {path or '.'}"
    raise AssertionError(step)


def _quoted(text: str) -> str:
    return text if re.fullmatch(r"[\w.:/,+%@-]+", text) and text[0] != "-" else "'" + text.replace("'", "'\\''") + "'"


def _newline(text: str) -> bytes:
    return (text.removesuffix("\n") + "\n").encode("latin-1", "surrogateescape")


class _Reader:
    """Reads the commands of a shell line."""

    def __init__(self, line: str) -> None:
        self._line = line
        self._directory = ""

    def steps(self) -> Iterator[Step]:
        """Return what they do."""
        command: list[str] = []
        for word in [*self._words(), ";"]:
            if word not in _ENDS:
                command.append(word)
                continue
            if command:
                yield from self._command(command)
            command = []

    def _words(self) -> Iterator[str]:
        """Return words, each with a mark before it, and operators without one."""
        for match in _WORD.finditer(self._line):
            text = match[0]
            if match["word"]:
                yield "w" + self._unquoted(text)
            elif text in ("'", '"', "\\"):
                raise BadOperation(f"{text} at column {match.start() + 1} has no end")
            elif text == "\n" or not text.isspace():
                yield text

    def _unquoted(self, text: str) -> str:
        """Return a word without its quotes; raise `BadOperation` where a shell would expand something."""
        made = ""
        for single, double, escaped, plain in _PIECE.findall(text):
            expanded = re.search(r"(?<!\\)(?:\\\\)*[$`]", double) or re.search(r"[$`*?()#{}\[\]~]", plain)
            if expanded:
                raise BadOperation(
                    f"a shell wouldn't leave {expanded[0][-1]} in {double or plain!r} as it is: put it in single quotes"
                )
            made += single + _ESCAPED.sub(r"\1", double) + escaped + plain
        return made

    def _command(self, words: list[str]) -> Iterator[Step]:
        names = [word[1:] if word[0] == "w" else None for word in words]
        if names[0] == "sudo":
            words, names = words[1:], names[1:]
        verb = (names[0] if names else None) or ""
        if verb == "cd":
            self._directory = self._path(_only(words[1:], "cd DIR"))
        elif verb in _VERBS:
            yield _VERBS[verb](self, words[1:])
        else:
            raise BadOperation(f"{verb or 'nothing'!r} is none of the commands {', '.join(_VERBS)}, cd")

    def _path(self, path: str) -> str:
        """Return a path as seen from the tracefs."""
        for root in _ROOTS:
            if path == root or path.startswith(root + "/"):
                return os.path.normpath(path[len(root) :].strip("/") or ".").removeprefix(".")
        if path.startswith("/"):
            raise BadOperation(f"{path} isn't in {_ROOTS[0]}")
        path = os.path.normpath(os.path.join(self._directory, path))
        if path.startswith(".."):
            raise BadOperation(f"{path} leads out of the tracefs")
        return "" if path == "." else path

    def _echo(self, words: list[str]) -> Step:
        end = next((end for end, word in enumerate(words) if word[0] != "w"), len(words))
        texts, redirection = [word[1:] for word in words[:end]], words[end:]
        newline = "\n"
        if texts and texts[0] == "-n":
            texts, newline = texts[1:], ""
        elif texts and re.fullmatch("-[eE]+", texts[0]):
            raise BadOperation(f"echo {texts[0]} isn't known here: without it backslashes stay as they are")
        path, flags = self._target(redirection)
        return Write(path, (" ".join(texts) + newline).encode("latin-1", "surrogateescape"), flags)

    def _target(self, redirection: list[str]) -> tuple[str, int]:
        """Return the file that an echo writes to, and how it opens it."""
        if redirection[:1] == ["|"]:
            words = [word[1:] for word in redirection[1:] if word != "wsudo"]
            if words[:1] == ["tee"] and (added := words[1:2] == ["-a"]) + 2 == len(words):
                return self._path(words[-1]), os.O_WRONLY | os.O_CREAT | (os.O_APPEND if added else os.O_TRUNC)
        elif len(redirection) == 2 and redirection[0] in (">", ">>") and redirection[1][0] == "w":
            mode = os.O_APPEND if redirection[0] == ">>" else os.O_TRUNC
            return self._path(redirection[1][1:]), os.O_WRONLY | os.O_CREAT | mode
        raise BadOperation("echo needs a file: echo 'TEXT' > FILE, >> FILE, or | tee [-a] FILE")

    def _stat(self, words: list[str]) -> Step:
        if words[:2] != ["w-c", "w%a"]:
            raise BadOperation("the only form of stat is: stat -c %a FILE")
        return Mode(self._path(_only(words[2:], "stat -c %a FILE")))

    def _list(self, words: list[str]) -> Step:
        left = [word for word in words if not re.fullmatch("w-[1aA]+", word)]
        return List(self._path(_only(left, "ls DIR")) if left else self._directory)


def _only(words: list[str], usage: str) -> str:
    if len(words) != 1 or words[0][0] != "w":
        raise BadOperation(f"the known form is: {usage}")
    return words[0][1:]


_VERBS: Mapping[str, Callable[[_Reader, list[str]], Step]] = {
    "echo": _Reader._echo,
    "cat": lambda reader, words: Read(reader._path(_only(words, "cat FILE"))),
    "ls": _Reader._list,
    "stat": _Reader._stat,
    "mkdir": lambda reader, words: Make(reader._path(_only(words, "mkdir DIR"))),
    "rmdir": lambda reader, words: Remove(reader._path(_only(words, "rmdir DIR"))),
}
