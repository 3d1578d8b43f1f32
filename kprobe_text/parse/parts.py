"""Trace text -> tables, read in parts by several processes; the result is the same as that of `Reading` alone.

A part ends after a probe's line without a string, which is a record whatever follows.  Each part is read with what
the text before it is expected to teach: if the part before teaches something else, or doesn't end with a record, all
that was read ahead is read again here.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from kprobe_text.columns.merge import forgeable_before
from kprobe_text.columns.reading import WINDOW, Reading
from kprobe_text.columns.rows import ARGUMENTS, EVENTS
from kprobe_text.parse.crew import ArgumentNames, Ended, Part, PartReader, PartResult
from kprobe_text.text.parser import State

_END: Final = re.compile(rb"\n[^\n\"]{16}-\d[^\n\"]{8,80}\.\d{6}: \w+: \([^()\n\"]+\)[^\n\"]*\n")
_LOOK: Final = 1 << 13  # bytes at a text's end that are searched for such a line first
# Bytes given away at once, as each process has memory for them.  The fixed cost of a part (making, sending and joining
# the arrays of each column) would be twice as high in parts of a fifth of this size.
PART: Final = 5 * (WINDOW >> 2)
_LONGEST: Final = 4 * WINDOW  # no part is longer


class SharedReading:
    """Reads the text of one file with the readers' help; `reading` makes a `Reading` for a file's name."""

    def __init__(self, reading: Callable[[str], Reading], readers: Sequence[PartReader], file: str) -> None:
        self._reading = reading(file)
        self._readers = list(readers)
        self._file = file
        self._free = list(readers)
        self._waiting: deque[tuple[PartReader, Part]] = deque()
        self._known_to: set[PartReader] = set()
        # the state where the unsettled parts begin; None if the text there is read here
        self._state: State | None = None
        self._offset = 0
        self._known: ArgumentNames = {}
        self._reach = 0  # how far into the file the strings of settled text may reach

    def tables(self, pieces: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        """Yield tables by name, in the order of the text: the rows of each continue those before."""
        held: list[bytes] = []
        size = 0
        problem: Exception | None = None
        try:
            try:
                for piece in pieces:
                    held.append(piece)
                    size += len(piece)
                    if size >= (PART if self._readers else WINDOW):
                        text = b"".join(held)
                        cut = yield from self._taken(text)
                        held, size = [text[cut:]], len(text) - cut
            except OSError as error:
                problem = error
            while self._waiting:
                yield from self._settled()
            self._here()
            yield self._reading.read(b"".join(held), final=True)
        finally:
            self._forget()
        if problem is not None:
            raise problem

    def _taken(self, text: bytes) -> Generator[dict[str, Any], None, int]:
        """Give a part away, or read it here; return its length."""
        cut = _cut(text) if self._readers else 0
        if self._waiting and len(self._waiting) == len(self._readers):
            yield from self._settled()
        if self._state is not None and cut and self._free:
            offset = self._offset + sum(len(part.text) for _, part in self._waiting)
            reader = self._free.pop()
            part = Part(self._file, reader not in self._known_to, text[:cut], offset, self._state)
            self._known_to.add(reader)
            with suppress(Ended):  # `_settled` handles it, when it takes the result
                reader.give(part)
            self._waiting.append((reader, part))
            return cut
        if self._state is not None and not cut and len(text) < _LONGEST:
            return 0
        while self._waiting:
            yield from self._settled()
        self._here()
        yield self._reading.read(text[: cut or len(text)])
        if self._readers and self._reading.is_loaded and (state := self._reading.state) is not None:
            self._state, self._offset, self._known = state, self._reading.offset, self._reading.known
            self._reach = self._reading.reach
        return cut or len(text)

    def _settled(self) -> Iterator[dict[str, Any]]:
        """Yield the tables of the part given away first; if its state was wrong, read it and all others here."""
        reader, part = self._waiting.popleft()
        said = self._answer(reader)
        known = {} if said is None else _together(self._known, said.known)
        is_full = len(known) >= EVENTS or any(len(names) >= ARGUMENTS for names in known.values())
        if said is not None and part.state == self._state and said.state is not None and not is_full:
            self._state, self._offset, self._known = said.state, part.offset + len(part.text), known
            yield {name: forgeable_before(table, self._reach) for name, table in said.tables.items()}
            self._reach = max(self._reach, said.reach)
            return
        texts = [part.text, *(other.text for _, other in self._waiting)]
        self._forget()
        if is_full:
            self._readers = []
        self._here()
        for text in texts:
            yield self._reading.read(text)

    def _here(self) -> None:
        """Read here what comes next."""
        if self._state is not None:
            self._reading.resume(self._state, self._offset, self._known, self._reach)
        self._state = None

    def _answer(self, reader: PartReader) -> PartResult | None:
        try:
            said = reader.take()
        except Ended:
            self._readers.remove(reader)
            return None
        self._free.append(reader)
        return said

    def _forget(self) -> None:
        """Take back the parts given away."""
        while self._waiting:
            self._answer(self._waiting.popleft()[0])
        self._known_to.clear()


def _cut(text: bytes) -> int:
    """Return where the last line ends that is a record whatever follows; 0 if there is none."""
    for start in (max(0, len(text) - _LOOK), 0):
        end = 0
        at = start
        while (found := _END.search(text, at)) is not None:
            end = found.end()
            at = end - 1
        if end or not start:
            return end
    return 0


def _together(one: ArgumentNames, other: ArgumentNames) -> ArgumentNames:
    if one.keys() >= other.keys() and all(set(names) <= set(one[name]) for name, names in other.items()):
        return one
    names = {name: dict.fromkeys(arguments) for name, arguments in one.items()}
    for name, arguments in other.items():
        names.setdefault(name, {}).update(dict.fromkeys(arguments))
    return {name: tuple(arguments) for name, arguments in names.items()}
