"""A file, text or a trace.dat, to its records."""

from __future__ import annotations

from kprobe.output import say
from kprobe.parsing.source import NotText, Source
from kprobe.text import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kprobe.parsing.schema import Schema
    from kprobe.text import Record

AT_ONCE = 1000  # records of a trace.dat that are shown together
PROBLEMS = 20  # of a trace.dat that are told


def read(file: str, schema: Schema, show: Callable[[list[Record]], object]) -> None:
    """Hand over the records of a file, "-" for standard input, as they come.  Raise `OSError` and `NotText`."""
    source = Source(file)
    try:
        if (data := source.trace_dat()) is not None:
            _read_dat(data, file, show)
            return
        parser = Parser(schema.formats, definitions=schema.definitions, live=source.is_live)
        try:
            for piece in source.pieces():
                show(parser.feed(piece))
        finally:
            show(parser.close())
    finally:
        source.close()


def _read_dat(data: bytes | memoryview, file: str, show: Callable[[list[Record]], object]) -> None:
    from itertools import islice

    from kprobe.pages.dat.file import NotTraceDat, TraceDat

    try:
        found = TraceDat(data, file)
        records = found.records()
        while some := list(islice(records, AT_ONCE)):
            show(some)
    except NotTraceDat as error:
        raise NotText(str(error)) from error
    problems = found.problems
    for words in problems[:PROBLEMS]:
        say(f"WARNING: {words}")
    if len(problems) > PROBLEMS:
        say(f"WARNING: and {len(problems) - PROBLEMS} more of that kind")
