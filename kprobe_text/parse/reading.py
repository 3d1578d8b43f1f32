"""From a file, text or a trace.dat, to its records."""

from __future__ import annotations

from kprobe_text.parse.source import NotText, Source
from kprobe_text.terminal.output import say
from kprobe_text.text import Count, Parser, stated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kprobe_text.pages.dat.cursor import FileBytes
    from kprobe_text.parse.schema import Schema
    from kprobe_text.text import Record

AT_ONCE = 1000  # records of a trace.dat that are printed together
MUCH = 1 << 16  # bytes of them
PROBLEMS = 20  # reported for a trace.dat


def read(file: str, schema: Schema, show: Callable[[list[Record]], object]) -> None:
    """Pass on the records of a file, "-" for standard input, as they come.  Raise `OSError` and `NotText`."""
    source = Source(file)
    try:
        if (data := source.trace_dat()) is not None:
            _read_dat(data, file, show)
            return
        settled = _is_settled(source, schema)
        parser = Parser(schema.formats, definitions=schema.definitions, live=source.is_live, settled=settled)
        try:
            for piece in source.pieces():
                show(parser.feed(piece))
        finally:
            show(parser.close())
    finally:
        source.close()


def _is_settled(source: Source, schema: Schema) -> bool:
    """Return whether a file has as many records as its header says, so that none is forged: it is read twice."""
    if source.is_live or (entries := stated(source.opening())) is None:
        return False
    parser, count = Parser(schema.formats, definitions=schema.definitions, settled=True), Count()
    try:
        for piece in source.pieces():
            count.add(parser.feed(piece))
            if count.entries > entries:
                return False
        count.add(parser.close())
    except (OSError, NotText):
        return False  # the second reading will report it
    finally:
        source.rewind()
    return count.settles(entries)


def _read_dat(data: FileBytes, file: str, show: Callable[[list[Record]], object]) -> None:
    from kprobe_text.pages.dat.file import NotTraceDat, TraceDat

    try:
        found = TraceDat(data, file)
        some: list[Record] = []
        size = 0
        for record in found.records():
            some.append(record)
            size += len(record.raw)
            if len(some) >= AT_ONCE or size >= MUCH:
                show(some)
                some, size = [], 0
        show(some)
    except NotTraceDat as error:
        raise NotText(str(error)) from error
    problems = found.problems
    for words in problems[:PROBLEMS]:
        say(f"WARNING: {words}")
    if len(problems) > PROBLEMS:
        say(f"WARNING: and {len(problems) - PROBLEMS} more of that kind")
