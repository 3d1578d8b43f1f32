"""A parser's results on a corpus, counted by kernel, options and defect."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from kprobe_corpus.parsers.adapter import CRASHED
from kprobe_corpus.parsers.answers import EVENT, NO_RECORD
from kprobe_corpus.parsers.comparison import KINDS, MARKED, RIGHT, of_types, unsaid
from kprobe_corpus.parsers.lines import line_of
from kprobe_corpus.parsers.running import ANSWERED, HUNG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import Any

    from kprobe_corpus.parsers.comparison import Misreading
    from kprobe_corpus.parsers.testing import Result

PLAIN = "plain"  # the name for texts without defects, or without options
COUNTS = (*KINDS, CRASHED, HUNG)
MARK_MISREAD = ("wrong", "missing", "invented", CRASHED, HUNG)


class Example(NamedTuple):
    """The shortest entry with some defects that a parser misread, and the first line that it misread, from 1."""

    defects: tuple[str, ...]
    kernel: str
    name: str
    lines: int
    kind: str
    line: int
    text: str
    misread: Misreading | None
    words: str


class Tally(NamedTuple):
    """The results of all entries, and what the parser never reports."""

    results: Sequence[Result]
    silent: frozenset[str]
    seconds: float

    @property
    def is_well(self) -> bool:
        """True if nothing was misread, and no command crashed or hung."""
        return all(result.is_well for result in self.results)

    def counts(self, key: Callable[[Result], Collection[str]] = lambda result: ("",)) -> dict[str, Counter[str]]:
        """Count records by kind, and crashed and hung commands, by the `key` of a result."""
        tally: dict[str, Counter[str]] = {}
        for result in self.results:
            own = count(result)
            for name in key(result):
                tally.setdefault(name, Counter()).update(own)
        return tally


def tally(results: Sequence[Result], types: Collection[str], seconds: float) -> Tally:
    """Count settled results."""
    said = {word for result in results for word in result.comparison.reported} | (set(types) or {EVENT})
    silent: set[str] = set()
    for result in results:
        silent |= unsaid(of_types(result.entry.truth(), types), said)
    return Tally(results, frozenset(silent), seconds)


def count(result: Result) -> Counter[str]:
    """Count the records of one result by kind, and how its command ended."""
    counts: Counter[str] = Counter({RIGHT: result.comparison.right})
    counts.update(reading.kind for reading in result.comparison.readings)
    if result.state != ANSWERED:
        counts[result.state] += 1
    counts["entries"] = 1
    counts["entries misread"] = int(not result.is_well)
    return counts


def kernel_of(result: Result) -> tuple[str]:
    """Return the kernel of a result, for `counts`."""
    return (result.entry.kernel,)


def options_of(result: Result) -> tuple[str]:
    """Return the options of a result, and its clock unless that is the default."""
    about = result.entry.about
    clock = about.get("clock", "local")
    words = [*about.get("options", ()), *([f"clock {clock}"] if clock != "local" else [])]
    return (",".join(words) or PLAIN,)


def defects_of(result: Result) -> tuple[str, ...]:
    """Return the defects in the text of a result."""
    return tuple(result.entry.about.get("defects", ())) or (PLAIN,)


def misread(counts: Counter[str]) -> int:
    """Return how many records were misread, and commands crashed or hung."""
    return sum(counts[kind] for kind in MARK_MISREAD)


def examples(tally: Tally) -> list[Example]:
    """Return for each defect the shortest entry that was misread; defects with the same one are joined."""
    shortest: dict[str, Result] = {}
    for result in tally.results:
        if not result.is_well:
            for defect in defects_of(result):
                best = shortest.setdefault(defect, result)
                if _length(result) < _length(best):
                    shortest[defect] = result
    together: dict[tuple[str, str], list[str]] = {}
    results = {(result.entry.kernel, result.entry.name): result for result in shortest.values()}
    for defect, result in sorted(shortest.items()):
        together.setdefault((result.entry.kernel, result.entry.name), []).append(defect)
    return [example(results[place], tuple(defects)) for place, defects in together.items()]


def _length(result: Result) -> tuple[int, int]:
    return (result.entry.about.get("lines", 0), len(result.entry.text))


def example(result: Result, defects: tuple[str, ...] = ()) -> Example:
    """Return the first line of an entry that was misread."""
    entry = result.entry
    head = (defects, entry.kernel, entry.name, entry.about.get("lines", 0))
    faults = [one for one in result.comparison.readings if one.kind != MARKED]
    # a line that isn't a record comes first: later errors follow from it
    reading = next((one for one in faults if (one.answer or {}).get("type") == NO_RECORD), next(iter(faults), None))
    if reading is None or (result.state != ANSWERED and not result.comparison.right):
        return Example(*head, result.state, 0, "", None, result.words)
    line, text = line_of(entry.text, entry.truth(), reading.number) if reading.truth is not None else (0, "")
    worst = next(one for one in reading.misread if one.kind == reading.kind)
    return Example(*head, reading.kind, line, text, worst, result.words)


def as_dict(tally: Tally) -> dict[str, Any]:
    """Return the report as JSON: the totals, each entry, and the examples."""
    return {
        "is_well": tally.is_well,
        "seconds": round(tally.seconds, 3),
        "total": dict(tally.counts().get("", Counter())),
        "never_said": sorted(tally.silent),
        "entries": [
            {
                "kernel": result.entry.kernel,
                "name": result.entry.name,
                "options": list(result.entry.about.get("options", ())),
                "clock": result.entry.about.get("clock", "local"),
                "defects": list(result.entry.about.get("defects", ())),
                **{kind: number for kind, number in count(result).items() if kind in COUNTS},
                "seconds": round(result.seconds, 4),
                **({"ended": result.words} if result.words else {}),
            }
            for result in tally.results
        ],
        "examples": [
            {
                **{key: value for key, value in one._asdict().items() if key != "misread"},
                **({} if one.misread is None else one.misread._asdict()),
            }
            for one in examples(tally)
        ],
    }
