"""`kprobe parse --summary`, `--latency`, `--perfetto` …: results of all records instead of the records."""

from __future__ import annotations

from kprobe_text.figures.shape import Counts, encoded
from kprobe_text.parse.perfetto import Perfetto
from kprobe_text.parse.reading import read
from kprobe_text.parse.source import NotText
from kprobe_text.terminal.control_characters import width
from kprobe_text.terminal.output import say
from kprobe_text.terminal.signals import Signalled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kprobe_text.figures.figure import Figure
    from kprobe_text.parse.schema import Schema
    from kprobe_text.terminal.output import Output
    from kprobe_text.text import Record

DONE, FAILED = 0, 1


def show(files: list[str], figure: Figure, schema: Schema, output: Output, *, as_json: bool, tells: bool) -> int:
    """Show a figure of the records of files, as lines of text or as an object a line; return the exit status.

    `tells`: report what is uncertain on stderr, where the figure doesn't show it.
    """
    counts = Counts()

    def add(record: Record) -> None:
        counts.add(record)
        figure.add(record)

    status, signalled = _read(files, schema, add, figure.end)
    text = "".join(encoded(found) + "\n" for found in figure.objects()) if as_json else figure.text(width())
    output.write(text.encode("utf-8", "surrogateescape"), lambda: False)
    output.finish(lambda: False)
    for words in figure.notes():
        say(f"NOTE: {words}")
    if tells and (said := counts.words()):
        say(f"NOTE: {said}")
    if signalled is not None:
        raise signalled
    return status


def perfetto(files: list[str], trace: str, schema: Schema) -> int:
    """Write the records of files into a trace for Perfetto; return the exit status."""
    counts = Counts()
    try:
        with open(trace, "wb") as out:
            written = Perfetto(out.write)

            def add(record: Record) -> None:
                counts.add(record)
                written.add(record)

            status, signalled = _read(files, schema, add, written.end)
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
    """Read all files, or up to a signal: a trace_pipe has no end, so Ctrl-C ends it."""
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
