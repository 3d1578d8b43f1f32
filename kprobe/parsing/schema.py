"""The types of events' arguments, from files: formats and definitions."""

from __future__ import annotations

import os
import re

from kprobe.text import defined_name, parse_format

_HEADING = re.compile(r"^== .*\n", re.M)  # between files, as tail(1) and our fixtures have it
_PART = re.compile(r"^(?=name: )", re.M)
_DEFINITION = re.compile(r"[prftse]\d*(?::\S+)?\s+\S")


class BadSchema(Exception):
    """A file that holds neither formats nor definitions; the text says which."""


class Schema:
    """The formats and definitions in files and directories.  Raise `OSError` and `BadSchema`.

    An event whose name two groups have, with different formats, has none: which is meant isn't in a trace.
    """

    def __init__(self, paths: list[str]) -> None:
        self.formats: dict[str, str] = {}
        self.definitions: list[str] = []
        self._twice: set[str] = set()
        for path in paths:
            if os.path.isdir(path):
                self._directory(path)
            else:
                self._file(path)
        for name in self._twice:
            del self.formats[name]

    def _directory(self, path: str) -> None:
        found = 0
        for directory, _, files in os.walk(path):
            if "format" in files:
                found += 1
                self._file(os.path.join(directory, "format"))
        if not found:
            raise BadSchema(f"{path} has no format file")

    def _file(self, path: str) -> None:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
        parts = _PART.split(_HEADING.sub("", text))
        if len(parts) > 1:
            for part in parts[1:]:
                self._format(path, part)
            return
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
        for line in lines:
            if _DEFINITION.match(line) is None or not defined_name(line):
                raise BadSchema(f"{path} holds neither an event's format nor definitions: {line[:60]!r}")
        self.definitions += lines

    def _format(self, path: str, text: str) -> None:
        try:
            name = parse_format(text).name
        except ValueError as error:
            raise BadSchema(f"{path}: {error}") from error
        shown = text.partition("print fmt: ")[2].rstrip()
        known = self.formats.setdefault(name, text)
        if known.partition("print fmt: ")[2].rstrip() != shown:
            self._twice.add(name)
