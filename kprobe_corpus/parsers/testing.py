"""A parser's command run on every text of a corpus, several at a time, and its answers compared."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from kprobe_corpus.parsers.answers import EVENT, Record, read, sizeless
from kprobe_corpus.parsers.comparison import Comparison, compare, of_types, settle
from kprobe_corpus.parsers.running import ANSWERED, Outcome, Program, StayingProgram
from kprobe_corpus.traces.entry import DAT, TEXT, Entry
from kprobe_corpus.traces.writing import write


class Result(NamedTuple):
    """A parser's result for an entry: how its command ended, and how its answer compares."""

    entry: Entry
    state: str
    words: str
    seconds: float
    comparison: Comparison
    output: bytes = b""  # if it is kept

    @property
    def answer(self) -> list[Record]:
        """The records that the parser answered, where its output is kept."""
        return read(self.output)

    @property
    def is_well(self) -> bool:
        """False if a record was misread, or the command crashed or hung."""
        return self.state == ANSWERED and all(reading.kind == "marked" for reading in self.comparison.readings)


class Reader(NamedTuple):
    """A parser's command line and how it is run: `limit` in seconds for a text, `jobs` at a time."""

    argv: Sequence[str]
    jobs: int = 1
    limit: float = 30.0
    stays: bool = False
    types: Collection[str] = ()
    file: str = TEXT  # what the command gets on its standard input

    def command(self) -> Program:
        """Return the command, to be asked; the first text starts it."""
        return StayingProgram(self.argv, self.limit) if self.stays else Program(self.argv, self.limit, self.file)

    def result(self, entry: Entry, outcome: Outcome) -> Result:
        """Compare the command's answer; the parser is tested on all that it reports."""
        truths, answers = entry.truth(), read(outcome.output)
        if self.file == DAT:
            truths, answers = sizeless(entry.dat_truth()), sizeless(answers)
        comparison = compare(of_types(truths, self.types), of_types(answers, self.types))
        return Result(entry, outcome.state, outcome.words, outcome.seconds, comparison)


def variables(entry: Entry) -> dict[str, str]:
    """Return the variables that describe an entry to a command, besides its files."""
    about = entry.about
    return {
        "KPROBE_KERNEL": entry.kernel,
        "KPROBE_OPTIONS": ",".join(about.get("options", ())),
        "KPROBE_CLOCK": str(about.get("clock", "local")),
    }


def ask_all(parser: Reader, entries: Sequence[Entry], done: Callable[[int], None]) -> list[Result]:
    """Return the parser's result for each entry, in their order; `done` gets the number answered.

    Raise `NotStarted` if the command can't be started.
    """
    from concurrent.futures import ThreadPoolExecutor
    from queue import SimpleQueue
    from threading import local

    here = local()
    commands: SimpleQueue[Program] = SimpleQueue()

    def ask(entry: Entry, directory: str) -> Result:
        if not hasattr(here, "command"):
            here.command = parser.command()
            commands.put(here.command)
        home = os.path.join(directory, entry.kernel, entry.name)
        return parser.result(entry, here.command.ask(home, variables(entry)))

    with tempfile.TemporaryDirectory(prefix="kprobe-") as directory:
        for entry in entries:
            write(entry, directory)
        pool = ThreadPoolExecutor(max_workers=parser.jobs)
        try:
            asked = [pool.submit(ask, entry, directory) for entry in entries]
            results = []
            for future in asked:
                results.append(future.result())
                done(len(results))
        finally:
            pool.shutdown(cancel_futures=True)
            while not commands.empty():
                commands.get().close()
    return settled(results, parser.types)


def settled(results: Sequence[Result], types: Collection[str] = (), reported: Collection[str] = ()) -> list[Result]:
    """Return the results without what the parser reports in no text; `reported` is what it reported elsewhere."""
    everything = (
        {word for result in results for word in result.comparison.reported} | (set(types) or {EVENT}) | set(reported)
    )
    return [result._replace(comparison=settle(result.comparison, everything)) for result in results]
