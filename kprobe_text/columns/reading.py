"""Trace text, in chunks -> tables, one for each event, for the text read so far.

The compiled pass reads what it can.  Lines that aren't plain go to `kprobe_text.text`, which says where their record
ends, and there the pass goes on.  So all values are those of `kprobe_text.text.Parser`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from kprobe_text.columns.column_types import declared_types
from kprobe_text.columns.merge import merged
from kprobe_text.columns.rows import Rows
from kprobe_text.text import Event, Parser, Record
from kprobe_text.text.descriptions import Formats
from kprobe_text.text.parser import State

WINDOW: Final = 1 << 20  # bytes of text that are read at once, and that the tables cover
_FIRST: Final = 1 << 16  # while the text brings new probes
_PIECE: Final = 4096  # bytes that kprobe_text.text gets at once


class Reading:
    """Reads the text of one file.

    `file` fills a column.  The compiled pass takes seconds to compile when it is first used, and almost a second to
    load, so `kprobe_text.text` reads less than 1 MiB of text unless `compiled` says otherwise.  Without numba it reads
    everything, which takes ten times as long.
    """

    def __init__(
        self,
        formats: Formats | None = None,
        definitions: Iterable[str] = (),
        *,
        file: str = "",
        compiled: bool | None = None,
    ) -> None:
        definitions = list(definitions)
        self._parser = Parser(formats, definitions=definitions)
        known: dict[str, Mapping[str, pa.DataType]] = {}

        def types(name: str) -> Mapping[str, pa.DataType]:
            if name not in known:
                known[name] = declared_types(formats, name)
            return known[name]

        self._rows = Rows(file, types)
        self._probes: Any = None
        self._pass: Any = None
        self._load: Any = None if compiled is False else lambda: _compiled(formats, definitions, types)
        self._is_asked = compiled is True
        self._text = b""
        self._base = 0
        self._window = _FIRST
        self._has_learned = False
        self._tables: dict[str, list[pa.Table]] = {}

    def tables(self, pieces: Iterable[bytes]) -> Iterator[dict[str, pa.Table]]:
        """Yield tables by name, in the order of the text: the rows of each continue those before.

        An error from `pieces` is raised after the tables of the text before it.
        """
        waiting: list[bytes] = []
        size = 0
        problem: Exception | None = None
        try:
            for piece in pieces:
                waiting.append(piece)
                size += len(piece)
                if size >= self._window:
                    yield self.read(b"".join(waiting))
                    waiting, size = [], 0
        except OSError as error:
            problem = error
        yield self.read(b"".join(waiting), final=True)
        if problem is not None:
            raise problem

    @property
    def state(self) -> State | None:
        """What was learned of the text so far, if all of it is read and no more is needed to read on."""
        return None if self._text else self._parser.state

    @property
    def offset(self) -> int:
        """Where the unread text begins."""
        return self._base

    @property
    def reach(self) -> int:
        """How far into the file the strings read so far may reach."""
        return self._base + self._parser.fast_path.reach

    @property
    def is_loaded(self) -> bool:
        """Whether enough text has come to choose the reader."""
        return self._load is None

    def take_back(self) -> bytes:
        """Return the unread text, and forget it."""
        text, self._text = self._text, b""
        return text

    @property
    def known(self) -> dict[str, tuple[str, ...]]:
        """The events with their arguments that have a table."""
        return self._rows.known

    def resume(
        self, state: State, offset: int, known: Mapping[str, Iterable[str]] | None = None, reach: int = 0
    ) -> None:
        """Go on at a byte of the file, given what was learned of the text before and which events have a table.

        `reach` is how far into the file the strings of that text may reach.
        """
        self._parser.resume(state)
        self._parser.fast_path.reach = max(0, reach - offset)
        if known is not None:
            self._rows.begin(known)
        self._text, self._base = b"", offset

    def read(self, more: bytes, *, final: bool = False) -> dict[str, pa.Table]:
        """Read more text, up to the last whole record; return tables by name."""
        text = self._text + more
        self._has_learned = False
        if self._load is not None and (self._is_asked or self._base > WINDOW):
            self._probes, self._pass = self._load()
            self._load = None
        limit = text.rfind(b"\n") + 1
        done = 0 if self._pass is None else self._scanned(text, limit)
        if final or self._pass is None:
            done = self._all(text, done)
        if final:
            for record in self._parser.close():
                self._add(done, record)
                done += len(record.raw)
        else:
            self._parser.take_back()
        self._text = text[done:]
        self._base += done
        self._window = _FIRST if self._has_learned else min(2 * self._window, WINDOW)
        for key, table in self._rows.tables().items():
            self._tables.setdefault(key, []).append(table)
        tables, self._tables = self._tables, {}
        return {key: merged(parts) for key, parts in tables.items()}

    def _all(self, text: bytes, done: int) -> int:
        """Give all text from an offset on to `kprobe_text.text`; return where the last record ends."""
        for at in range(done, len(text), _FIRST):
            for record in self._parser.feed(text[at : at + _FIRST]):
                self._add(done, record)
                done += len(record.raw)
        return done

    def _add(self, at: int, record: Record) -> None:
        self._rows.add(self._base + at, record)
        if self._probes is not None and isinstance(record, Event) and self._parser.is_usual:
            self._has_learned |= self._rows.knows(record.name, record.fields) and self._probes.learn(
                record, self._parser.fast_path.opens
            )

    def _scanned(self, text: bytes, limit: int) -> int:
        import numpy as np

        compiled = self._pass
        compiled.load(text)
        at, before = 0, -1
        while at < limit and at != before:
            before = at
            is_decimal = self._parser.is_decimal
            starts, good, reached = compiled.scan(at, limit, is_decimal)
            stops = starts[good]
            bad = np.flatnonzero(~good)
            taken: list[Any] = []
            line = 0
            while line < len(starts):
                if good[line] and self._parser.is_usual:
                    end = bad[np.searchsorted(bad, line)]
                    taken.append(np.arange(line, end))
                    fast_path = self._parser.fast_path
                    reach = compiled.forge(line, end, at + fast_path.reach, fast_path.longest)
                    line = end
                    at = int(starts[line])
                    fast_path.reach = max(0, reach - at)
                    continue
                if line == len(starts) - 1 and reached < limit:
                    break  # the tables are full
                at, is_stop = self._apart(text, int(starts[line]), limit, stops, is_decimal)
                if not is_stop:
                    break
                line = int(np.searchsorted(starts, at))
            if taken:
                for key, table in compiled.tables(np.concatenate(taken), self._base, self._rows):
                    self._tables.setdefault(key, []).append(table)
        return at

    def _apart(self, text: bytes, at: int, limit: int, stops: Any, was_decimal: bool) -> tuple[int, bool]:
        """Give lines to `kprobe_text.text` up to a record's end from which the pass can go on; return where that is,

        and whether it is a line of `stops`; if not, the text has to be scanned anew from there, or must go on.
        """
        import numpy as np

        parser = self._parser
        start = fed = at
        learned, self._has_learned = self._has_learned, False
        is_stop = False
        while fed < limit and not is_stop:
            k = int(np.searchsorted(stops, fed))
            target = text.index(b"\n", int(stops[k])) + 1 if k < len(stops) else limit
            target = min(target, fed + _PIECE)
            for record in parser.feed(text[fed:target]):
                self._add(at, record)
                at += len(record.raw)
            fed = target
            if not parser.is_usual or at == start:
                continue
            if self._has_learned or parser.is_decimal != was_decimal:
                break
            k = int(np.searchsorted(stops, at))
            is_stop = k < len(stops) and int(stops[k]) == at
        parser.take_back()
        self._has_learned |= learned
        return at, is_stop


def _compiled(formats: Formats | None, definitions: list[str], types: Any) -> tuple[Any, Any]:
    try:
        from kprobe_text.columns.compiled_pass import CompiledPass
        from kprobe_text.columns.probe_tables import ProbeTables
    except ImportError:  # numba isn't installed
        return None, None
    probes = ProbeTables(formats, definitions)
    return probes, CompiledPass(probes, types, 2 * WINDOW)
