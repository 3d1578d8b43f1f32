"""The texts of a corpus as parameters of tests: the values of the pytest fixture `trace_text`."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from kprobe_corpus.parsers.answers import record_of
from kprobe_corpus.parsers.comparison import compare, of_types, settle
from kprobe_corpus.parsers.running import ANSWERED
from kprobe_corpus.parsers.tables import shown
from kprobe_corpus.parsers.tally import example
from kprobe_corpus.parsers.testing import Result
from kprobe_corpus.traces import entries
from kprobe_corpus.traces.entry import Entry


class TraceText:
    """A trace as a kernel printed it, to test a parser with; `entry` has all other data about it."""

    __slots__ = ("entry",)

    def __init__(self, entry: Entry) -> None:
        self.entry = entry

    def __repr__(self) -> str:
        return f"TraceText({self.entry.kernel}/{self.entry.name})"

    @property
    def text(self) -> bytes:
        """The text."""
        return self.entry.text

    @property
    def formats(self) -> dict[str, str]:
        """The events' format files by the events' names; empty where they weren't recorded."""
        return self.entry.formats

    @property
    def definitions(self) -> list[str]:
        """The probes' definitions, as in kprobe_events; empty where they weren't recorded."""
        return self.entry.definitions

    def check(
        self, read: Callable[[bytes], Iterable[Mapping[str, Any]]], *, types: Collection[str] = ("event",)
    ) -> bool:
        """Return True if `read` returns the truth of the text, with guesses marked.

        `read` returns records as in docs/reference/reader-schema.md; those of `types` are compared, with all keys that
        it uses for this text.  Raise AssertionError with the first line that was misread.
        """
        answers = [record_of(json.dumps(record).encode()) for record in read(self.text)]
        for number, record in enumerate(answers, 1):
            record.setdefault("line", number)
        found = compare(of_types(self.entry.truth(), types), of_types(answers, types))
        result = Result(self.entry, ANSWERED, "", 0.0, settle(found, {*found.reported, *types}))
        if not result.is_well:
            raise AssertionError(shown(example(result)))
        return True


def chosen(directory: str | None, kernels: str, scenarios: str) -> list[TraceText]:
    """Return the texts of a corpus, all or those that comma-separated patterns match; raise `CorpusError`."""
    wanted = [[word for word in words.split(",") if word] for words in (kernels, scenarios)]
    return [TraceText(entry) for entry in entries(*wanted, directory=directory)]
