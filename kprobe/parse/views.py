"""`kprobe parse --summary` and `--perfetto`: what is made of all records rather than shown of each."""

from __future__ import annotations

import os

from kprobe.output import say
from kprobe.parse.perfetto import Perfetto
from kprobe.parse.shape import Counts
from kprobe.parse.source import NotText, Source
from kprobe.parse.summary import Summary
from kprobe.text import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kprobe.output import Output
    from kprobe.parse.schema import Schema
    from kprobe.signals import Signals
    from kprobe.text import Record

DONE, FAILED = 0, 1


def view(files: list[str], trace: str, schema: Schema, output: Output, signals: Signals) -> int:
    """Sum up files, or write them into a trace for Perfetto if its path isn't empty; return the exit status."""
    if not trace:
        summary = Summary()
        status = _read(files, schema, signals, summary.add, summary.end)
        bars = os.isatty(1)
        output.write(summary.text(bars=bars).encode("utf-8", "surrogateescape"), lambda: False)
        output.finish(lambda: False)
        return status
    counts = Counts()
    try:
        with open(trace, "wb") as file:
            perfetto = Perfetto(file.write)

            def add(record: Record) -> None:
                counts.add(record)
                perfetto.add(record)

            status = _read(files, schema, signals, add, perfetto.end)
    except OSError as error:
        say(f"ERROR: {trace}: {error.strerror}")
        return FAILED
    if said := counts.words():
        say(f"NOTE: {said}")
    return status


def _read(
    files: list[str], schema: Schema, signals: Signals, add: Callable[[Record], None], end: Callable[[], None]
) -> int:
    """Read all files, until a signal comes."""
    status = DONE
    for file in files:
        try:
            source = Source(file)
        except OSError as error:
            say(f"ERROR: {error.filename}: {error.strerror}")
            status = FAILED
            continue
        parser = Parser(schema.formats, definitions=schema.definitions, live=source.is_live)
        try:
            for piece in source.pieces():
                for record in parser.feed(piece):
                    add(record)
                if signals.received:
                    break
        except (OSError, NotText) as error:
            say(f"ERROR: {error.filename}: {error.strerror}" if isinstance(error, OSError) else f"ERROR: {error}")
            status = FAILED
        finally:
            source.close()
        for record in parser.close():
            add(record)
        end()
    return status
