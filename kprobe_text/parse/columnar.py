"""`kprobe parse --format parquet`: everything in the files, written to a directory with one file for each event."""

from __future__ import annotations

import os

from kprobe_text.parse.source import GZIP, TRACE_DAT, ZSTD, NotText, Source
from kprobe_text.terminal.meter import Meter
from kprobe_text.terminal.output import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from kprobe_text.pages.dat.cursor import FileBytes
    from kprobe_text.parse.schema import Schema
    from kprobe_text.terminal.signals import Signals

MISSING = "needs {}, which isn't installed: pip install 'kprobe-sim[bulk]', or use --format ndjson or csv"
DONE, FAILED, USAGE_ERROR = 0, 1, 2
PROBLEMS = 20  # reported for a trace.dat
MUCH = 1 << 23  # bytes of text that other processes help to read
HELD = 1 << 21  # bytes of tables that wait to be written then: each process has its own memory, too
PACKED = 8  # the length of packed text once unpacked, as a rough factor


def write(
    files: list[str], form: str, directory: str, schema: Schema, signals: Signals, *, jobs: int | None = None
) -> int:
    """Read files into a directory and return the exit status."""
    try:
        # pyarrow reads this on import; its own pool keeps 35 MiB more for a million lines
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
        from kprobe_text.columns import NotEmpty, Store, Writer
    except ImportError as error:
        say(f"ERROR: --format {form} {MISSING.format(error.name or error)}")
        return USAGE_ERROR
    try:
        jobs = len(os.sched_getaffinity(0)) if jobs is None else jobs
        # reading and writing in one process keep two processors busy already
        much = jobs > 2 and sum(os.path.getsize(file) * _times(file) for file in files if os.path.isfile(file)) >= MUCH
        store = Store(directory, form, HELD if much else None)
    except NotEmpty as error:
        say(f"ERROR: {error}")
        return USAGE_ERROR
    except OSError as error:
        say(f"ERROR: {directory}: {error.strerror}")
        return USAGE_ERROR
    crew = _Crew(schema, 2 if much else 0)
    writer = Writer(store, jobs)
    sizes = [os.path.getsize(file) for file in files if os.path.isfile(file)]
    meter = Meter("reading", sum(sizes) if len(sizes) == len(files) else None, "B")
    try:
        status = _read(files, crew, writer, meter, signals)
        names = writer.close()
    except OSError as error:  # an error of the store: those of the files are reported where they are read
        writer.abandon()
        say(f"ERROR: {directory}: {error.strerror or error}: nothing is written; make room, or name another directory")
        return FAILED
    except BaseException:
        writer.abandon()
        raise
    finally:
        meter.close()
        crew.close()
    count = "1 file" if len(names) == 1 else f"{len(names)} files"
    listed = ": " + " ".join(names[:8]) if names else ""
    say(f"NOTE: {store.rows} row{'s' * (store.rows != 1)} in {count}{listed}{' …' if len(names) > 8 else ''}")
    return status


class _Crew:
    """Makes the readers of text; where files hold much of it, with the help of two forked processes."""

    def __init__(self, schema: Schema, count: int) -> None:
        self._schema = schema
        self._readers: list[Any] = []
        if count:
            from kprobe_text.parse.crew import readers

            self._readers = readers(self._reading, count)

    def _reading(self, file: str) -> Any:
        from kprobe_text.columns import Reading

        compiled = True if self._readers or not file else None
        return Reading(self._schema.formats, self._schema.definitions, file=file, compiled=compiled)

    def tables(self, file: str, pieces: Iterator[bytes]) -> Iterator[Any]:
        """Yield a file's tables."""
        if not self._readers:
            yield from self._reading(file).tables(pieces)
            return
        from kprobe_text.parse.parts import SharedReading

        yield from SharedReading(self._reading, self._readers, file).tables(pieces)

    def close(self) -> None:
        """End the processes."""
        for reader in self._readers:
            reader.close()


def _times(file: str) -> int:
    """Return roughly how many times as long as the file its text is; 0 if it isn't text."""
    try:
        with open(file, "rb") as source:
            first = source.read(len(TRACE_DAT))
    except OSError:
        return 0  # reported where the file is read
    if first == TRACE_DAT:
        return 0
    return PACKED if first.startswith((GZIP, ZSTD)) else 1


def _read(files: list[str], crew: _Crew, writer: Any, meter: Meter, signals: Signals) -> int:
    status = DONE
    for file in files:
        problems: list[str] = []
        for tables in _tables(file, crew, meter, signals, problems):
            writer.add(tables)
        for problem in problems:
            say(f"ERROR: {problem}; what comes before it is written")
            status = FAILED
    return status


def _tables(file: str, crew: _Crew, meter: Meter, signals: Signals, problems: list[str]) -> Iterator[Any]:
    try:
        source = Source(file)
        try:
            data = source.trace_dat()
            if data is None:
                yield from crew.tables(file, _pieces(source, file, meter, signals, problems))
            else:
                yield from _of_dat(data, file, meter, signals, problems)
        finally:
            source.close()
    except NotText as error:
        problems.append(str(error))
    except OSError as error:
        problems.append(f"{error.filename}: {error.strerror}")


def _of_dat(data: FileBytes, file: str, meter: Meter, signals: Signals, problems: list[str]) -> Iterator[Any]:
    from kprobe_text.columns.dat import AT_ONCE, tables_of
    from kprobe_text.pages.dat.file import NotTraceDat, TraceDat

    try:
        found = TraceDat(data, file)
        for tables in tables_of(found, file):
            meter.add(AT_ONCE)
            yield tables
            if signals.received:
                problems.append(f"{file}: stopped by a signal")
                return
    except NotTraceDat as error:
        raise NotText(str(error)) from error
    for words in found.problems[:PROBLEMS]:
        say(f"WARNING: {words}")


def _pieces(source: Source, file: str, meter: Meter, signals: Signals, problems: list[str]) -> Iterator[bytes]:
    """Yield the text of a file as far as it can be read; `problems` receives why it isn't complete."""
    try:
        for piece in source.pieces():
            meter.add(source.took)
            yield piece
            if signals.received:
                problems.append(f"{file}: stopped by a signal")
                return
    except NotText as error:
        problems.append(str(error))
    except OSError as error:
        problems.append(f"{error.filename}: {error.strerror}")
