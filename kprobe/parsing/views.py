"""`kprobe parse --summary` and `--perfetto`: what is made of all records rather than shown of each."""

from __future__ import annotations

import os

from kprobe.output import say
from kprobe.parsing.perfetto import Perfetto
from kprobe.parsing.reading import read
from kprobe.parsing.shape import Counts
from kprobe.parsing.source import NotText
from kprobe.parsing.summary import Summary
from kprobe.signals import Signalled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kprobe.output import Output
    from kprobe.parsing.schema import Schema
    from kprobe.text import Record

DONE, FAILED = 0, 1


def view(files: list[str], trace: str, schema: Schema, output: Output) -> int:
    """Sum up files, or write them into a trace for Perfetto if its path isn't empty; return the exit status."""
    if not trace:
        summary = Summary()
        status, signalled = _read(files, schema, summary.add, summary.end)
        output.write(summary.text(bars=os.isatty(1)).encode("utf-8", "surrogateescape"), lambda: False)
        output.finish(lambda: False)
        if signalled is not None:
            raise signalled
        return status
    counts = Counts()
    try:
        with open(trace, "wb") as out:
            perfetto = Perfetto(out.write)

            def add(record: Record) -> None:
                counts.add(record)
                perfetto.add(record)

            status, signalled = _read(files, schema, add, perfetto.end)
    except OSError as error:
        say(f"ERROR: {trace}: {error.strerror}")
        return FAILED
    if said := counts.words():
        say(f"NOTE: {said}")
    if signalled is not None:
        raise signalled
    return status


def _read(
    files: list[str], schema: Schema, add: Callable[[Record], None], end: Callable[[], None]
) -> tuple[int, Signalled | None]:
    """Read all files, or as much as there is when a signal comes: Ctrl-C ends a trace_pipe, which has no end."""
    status = DONE

    def show(records: list[Record]) -> None:
        for record in records:
            add(record)

    for file in files:
        try:
            read(file, schema, show)
        except NotText as error:
            say(f"ERROR: {error}")
            status = FAILED
        except OSError as error:
            if error.filename != file:
                raise  # not in reading
            say(f"ERROR: {file}: {error.strerror}")
            status = FAILED
        except Signalled as signal:
            end()
            return status, signal
        end()
    return status, None
