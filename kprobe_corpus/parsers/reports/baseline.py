"""A file of a parser's known misreadings: new ones fail, repaired ones are removed.

A line is a text and its misreadings, with records by their numbers in its truth.jsonl, from 1.
"""

from __future__ import annotations

import json
import os
import re
from hashlib import sha256
from typing import NamedTuple

from kprobe_corpus.parsers.adapter import CRASHED
from kprobe_corpus.parsers.comparison import FAULTS
from kprobe_corpus.parsers.running import ANSWERED, HUNG
from kprobe_corpus.traces import corpora
from kprobe_corpus.traces.corpora import entries, order
from kprobe_corpus.traces.entry import CorpusError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kprobe_corpus.parsers.testing import Result

VERSION = "1"
ENDED = (CRASHED, HUNG)
ALL = "all"
LONGEST = 200  # characters of a bad line that are shown
MOST = 1_000_000  # records; no corpus has so many
TITLE = "# What a parser is known to misread; kprobe test-parser --update-baseline strikes off what is repaired.\n"
_HEAD = re.compile(r"# (\w+): (.*)")
_LINE = re.compile(r"([^/]+)/(.+?): (?:(crashed|hung)|(wrong|missing|invented) (?s:(.*)))")
_RECORDS = re.compile(r"[\d,-]+")


class BadBaseline(CorpusError):
    """A baseline can't be used; the text says why, and what to do."""


class Failure(NamedTuple):
    """A misread part of a record, by its number; `record` is 0 for a text at which the command crashed or hung."""

    kernel: str
    name: str
    kind: str
    key: str = ""
    record: int = 0

    def __str__(self) -> str:
        return f"{self.kernel}/{self.name}: {self.kind}{' ' * bool(self.key)}{_shown(self.key)}{self._where}"

    @property
    def _where(self) -> str:
        return f" in record {self.record}" if self.record else ""

    @property
    def text(self) -> tuple[str, str]:
        """The text, as its kernel and its name."""
        return self.kernel, self.name


class Extent(NamedTuple):
    """The extent of a test: the corpus and its version, the texts, and what is compared."""

    corpus: str
    texts: str = ALL
    compared: str = ALL


class Baseline(NamedTuple):
    """Known failures, and the extent of their test."""

    scope: Extent
    failures: frozenset[Failure]


class Change(NamedTuple):
    """Failures compared with a baseline: known ones, new ones, and repaired ones."""

    known: frozenset[Failure]
    new: frozenset[Failure]
    repaired: frozenset[Failure]

    def left(self, before: Baseline) -> Baseline:
        """Return the baseline without repaired failures."""
        return before._replace(failures=before.failures - self.repaired | self.known)


def failures(results: Iterable[Result]) -> Iterator[Failure]:
    """Yield the misreadings; for a text at which the command crashed or hung, only that."""
    for result in results:
        place = (result.entry.kernel, result.entry.name)
        if result.state != ANSWERED:
            yield Failure(*place, result.state)
            continue
        for reading in result.comparison.readings:
            for one in reading.misread:
                if one.kind in FAULTS:
                    yield Failure(*place, one.kind, one.key, reading.number + 1)


def change(before: Baseline, results: Sequence[Result], scope: Extent) -> Change:
    """Compare failures with a baseline; only texts of the test can count as repaired.

    If the command was known to crash at a text, all failures there are known; if it crashes there now, none
    is repaired.
    """
    found = frozenset(failures(results))
    ended_before = {one.text for one in before.failures if one.kind in ENDED}
    ended_now = {one.text for one in found if one.kind in ENDED}
    known = frozenset(one for one in found if one in before.failures or one.text in ended_before)
    gone = before.failures - found if before.scope == scope else frozenset()
    return Change(known, found - known, frozenset(one for one in gone if one.text not in ended_now))


def read(path: str) -> Baseline | None:
    """Return the baseline in a file, None if there is no such file.  Raise `BadBaseline`."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadBaseline(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadBaseline(f"{path} is no baseline: it isn't UTF-8") from error
    heads = {found[1]: found[2] for line in lines if (found := _HEAD.fullmatch(line))}
    if heads.get("baseline") != VERSION:
        is_other = f"it is of version {heads['baseline']}" if "baseline" in heads else "it has no line # baseline: 1"
        raise BadBaseline(f"{path} is no baseline that this kprobe reads: {is_other}")
    found_failures: set[Failure] = set()
    for number, line in enumerate(lines, 1):
        if line and not line.startswith("#"):
            try:
                found_failures.update(_read(line))
            except ValueError:
                shown = line if len(line) <= LONGEST else f"{line[:LONGEST]}..."
                raise BadBaseline(
                    f"{path}, line {number}: {shown!r} isn't KERNEL/TEXT: KIND [KEY] in RECORDS"
                ) from None
            if len(found_failures) > MOST:
                raise BadBaseline(f"{path}, line {number}: more than {MOST} records are misread: no corpus has so many")
    scope = Extent(heads.get("corpus", ""), heads.get("texts", ALL), heads.get("compared", ALL))
    return Baseline(scope, frozenset(found_failures))


def held(path: str, before: Baseline, scope: Extent, *, updates: bool) -> None:
    """Raise `BadBaseline` if a baseline has another extent than the test."""
    for what, was, now in zip(Extent._fields, before.scope, scope, strict=True):
        if was != now and (updates or what != "texts"):
            again = "remove it, and --update-baseline writes it anew" if what == "corpus" else "give the same options"
            raise BadBaseline(f"{path} is of {what} {was}, and this is {now}: {again}")


def write(path: str, baseline: Baseline) -> None:
    """Write a baseline to a file, in an order that doesn't change.  Raise `BadBaseline`."""
    heads = {"baseline": VERSION, **baseline.scope._asdict()}
    text = TITLE + "".join(f"# {name}: {value}\n" for name, value in heads.items())
    try:
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            file.write(text + "".join(f"{line}\n" for line in _lines(baseline.failures)))
        os.replace(f"{path}.new", path)
    except OSError as error:
        raise BadBaseline(f"{path} can't be written: {error.strerror}") from error


def corpus_of(directory: str | None) -> str:
    """Return which corpus is tested, with its version, or the digest of the texts in a directory."""
    if directory is None:
        return ", ".join(f"{corpus.name} {corpus.version}" for corpus in corpora())
    digest = sha256()
    for entry in entries(directory=directory):
        digest.update(f"{entry.kernel}/{entry.name} {entry.about['sha256']}\n".encode())
        digest.update(entry.truth_lines)
    return f"texts with digest {digest.hexdigest()[:12]}"


def ordered(found: Iterable[Failure]) -> list[Failure]:
    """Return failures by kernel, oldest first, and then by text."""
    return sorted(found, key=lambda one: (order(one.kernel), *one))


def _lines(found: Iterable[Failure]) -> Iterator[str]:
    together: dict[Failure, list[int]] = {}
    for one in ordered(found):
        together.setdefault(one._replace(record=0), []).append(one.record)
    for one, records in together.items():
        yield str(one) if one.kind in ENDED else f"{one} in {_ranges(records)}"


def _read(line: str) -> Iterator[Failure]:
    found = _LINE.fullmatch(line)
    if found is None:
        raise ValueError
    kernel, name, ended, kind, which = found.groups()
    if ended:
        yield Failure(kernel, name, ended)
        return
    key, _, records = which.rpartition("in ")
    if _RECORDS.fullmatch(records) is None or (key and not key.endswith(" ")):
        raise ValueError
    key = key[:-1]
    for part in records.split(","):
        first, _, last = part.partition("-")
        numbers = range(int(first), int(last or first) + 1)
        if numbers.stop > MOST:
            raise ValueError
        for record in numbers:
            yield Failure(kernel, name, kind, json.loads(key) if key.startswith('"') else key, record)


def _ranges(numbers: Sequence[int]) -> str:
    """Return increasing numbers as 4,9-12."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] + 1 == number:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)


def _shown(key: str) -> str:
    return key if key.isprintable() and not key.startswith('"') and not any(map(str.isspace, key)) else json.dumps(key)
