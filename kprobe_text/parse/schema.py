"""The types of events' arguments, from files: formats and definitions."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator

from kprobe_text.text import Format, defined_name, parse_format

_HEADING = re.compile(r"^== .*\n", re.M)  # between files, as tail(1) and our fixtures have it
_PART = re.compile(r"^(?=name: )", re.M)
_DEFINITION = re.compile(r"[prftse]\d*(?::\S+)?\s+\S")


LARGEST = 1 << 25  # characters of all files; the formats of a kernel's events have an eighth
DEEPEST = 8  # nested directories; an instance's events are five below tracefs


class BadSchema(Exception):
    """A file that holds neither formats nor definitions; the text says which."""


class Schema:
    """The formats and definitions in files and directories.  Raise `OSError` and `BadSchema`.

    An event's name that two groups have with different formats is left out: a trace doesn't say which is meant.  Texts
    in a file or a directory that aren't formats are left out; `problems` has a sentence on each.
    """

    def __init__(self, paths: list[str]) -> None:
        self.formats: dict[str, str] = {}
        self.definitions: list[str] = []
        self.problems: list[str] = []
        self._parsed: dict[str, Format] = {}
        self._twice: set[str] = set()
        self._bytes = 0
        for path in paths:
            if os.path.isdir(path):
                self._directory(path)
            else:
                self._file(path)
        for name in self._twice:
            del self.formats[name]

    def _directory(self, path: str) -> None:
        read, before = 0, len(self.problems)
        for directory in sorted(_directories(path)):
            try:
                self._file(os.path.join(directory, "format"), is_format=True)
                read += 1
            except BadSchema as error:
                self.problems.append(str(error))
            except OSError as error:
                self.problems.append(f"{error.filename}: {error.strerror}")
        if not read:
            problems = self.problems[before:]
            raise BadSchema(problems[0] if len(problems) == 1 else f"{path} has no format file that can be read")

    def _file(self, path: str, *, is_format: bool = False) -> None:
        # in a directory, what isn't a file (a pipe) might block for ever
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (os.O_NONBLOCK if is_format else 0))
        with open(descriptor, encoding="utf-8", errors="surrogateescape") as file:
            if is_format and not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise BadSchema(f"{path} isn't a file")
            text = file.read(LARGEST + 1)
        self._bytes += len(text)
        if self._bytes > LARGEST:
            raise BadSchema(f"{path} makes it more than {LARGEST} characters of formats and definitions")
        parts = _PART.split(_HEADING.sub("", text))
        if len(parts) > 1:
            problems = [problem for part in parts[1:] if (problem := self._format(path, part))]
            if len(problems) == len(parts) - 1:
                raise BadSchema(problems[0])
            self.problems += problems
            return
        if is_format:
            raise BadSchema(f"{path} isn't an event's format")
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
        for line in lines:
            if _DEFINITION.match(line) is None or not defined_name(line):
                raise BadSchema(f"{path} holds neither an event's format nor definitions: {line[:60]!r}")
        self.definitions += lines

    def _format(self, path: str, text: str) -> str:
        """Take a format, or say why it isn't one."""
        try:
            found = parse_format(text)
        except ValueError as error:
            return f"{path}: {error}"
        self.formats.setdefault(found.name, text)
        known = self._parsed.setdefault(found.name, found)
        if known.print_fmt.rstrip() != found.print_fmt.rstrip() or (
            not found.print_fmt and known.fields != found.fields
        ):
            self._twice.add(found.name)
        return ""


def _directories(path: str) -> Iterator[str]:
    """Yield a directory and those below it that have a file called format."""
    for directory, below, files in os.walk(path):
        if "format" in files:
            yield directory
        if directory.count(os.sep) - path.count(os.sep) >= DEEPEST:
            below.clear()
