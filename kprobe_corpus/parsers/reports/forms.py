"""A parser's results as text, JSON, JUnit's XML and annotations for GitHub, with or without a baseline."""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from kprobe_corpus.parsers import tables
from kprobe_corpus.parsers.reports.baseline import Failure, failures, ordered
from kprobe_corpus.parsers.running import ANSWERED
from kprobe_corpus.parsers.tally import as_dict, example, examples
from kprobe_corpus.traces.entry import TEXT
from kprobe_text.terminal.annotations import annotation
from kprobe_text.terminal.junit import ERROR, FAILED, SKIPPED, JUnitCase, junit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kprobe_corpus.parsers.reports.baseline import Change
    from kprobe_corpus.parsers.tally import Example, Tally
    from kprobe_corpus.parsers.testing import Result

MANY = 20  # failures that are listed, both of new and of repaired ones


class Results(NamedTuple):
    """The results of all texts and, with a baseline, what is new and what is repaired."""

    tally: Tally
    change: Change | None = None
    words: str = ""  # the message about the baseline

    @property
    def is_well(self) -> bool:
        """True if nothing was misread except what the baseline knows."""
        return self.tally.is_well if self.change is None else not self.change.new

    def new_only(self) -> Tally:
        """Return the results without what the baseline knows."""
        if self.change is None:
            return self.tally
        return self.tally._replace(results=[_new(result, self.change.new) for result in self.tally.results])


def text(results: Results) -> str:
    """Return the report for people."""
    if results.change is None:
        return tables.text(results.tally)
    new = results.new_only()
    return "\n".join(
        [tables.grids(results.tally), *map(tables.shown, examples(new)), _changed(results)]
    ) + tables.summary(results.tally)


def as_json(results: Results) -> str:
    """Return everything as JSON."""
    report = as_dict(results.tally)
    if results.change is not None:
        report["is_well"] = results.is_well
        report["baseline"] = {
            "known": len(results.change.known),
            "new": [sample._asdict() for sample in ordered(results.change.new)],
            "repaired": [sample._asdict() for sample in ordered(results.change.repaired)],
        }
    return json.dumps(report, indent=1) + "\n"


def as_junit(results: Results) -> str:
    """Return JUnit's XML: a case for each text, skipped if it has only known failures."""
    pairs = zip(results.tally.results, results.new_only().results, strict=True)
    return junit("kprobe test-parser", [_case(result, new) for result, new in pairs])


def github(results: Results) -> str:
    """Return an annotation for the sample text with each defect that is misread, and a summary."""
    lines = [
        annotation("error", tables.shown(sample), _location(results, sample)) for sample in examples(results.new_only())
    ]
    return "".join(lines) + ("" if results.change is None else _changed(results)) + tables.summary(results.tally)


FORMATS: dict[str, Callable[[Results], str]] = {"text": text, "json": as_json, "junit": as_junit, "github": github}


def _changed(results: Results) -> str:
    assert results.change is not None
    lines = [results.words]
    for title, found in (("new", results.change.new), ("repaired", results.change.repaired)):
        if found:
            listed = ordered(found)
            lines += [f"{title}:", *(f"  {sample}" for sample in listed[:MANY])]
            lines += [f"  and {len(listed) - MANY} more"] if len(listed) > MANY else []
    return "".join(f"{line}\n" for line in lines)


def _new(result: Result, new: Collection[Failure]) -> Result:
    """Return a result with only new failures."""
    own = [sample for sample in failures([result]) if sample in new]
    if result.state != ANSWERED:
        return result if own else result._replace(state=ANSWERED, comparison=result.comparison._replace(readings=()))
    readings = []
    for reading in result.comparison.readings:
        keys = {(sample.kind, sample.key) for sample in own if sample.record == reading.number + 1}
        misread = tuple(sample for sample in reading.misread if (sample.kind, sample.key) in keys)
        readings += [reading._replace(misread=misread)] if misread else []
    return result._replace(comparison=result.comparison._replace(readings=tuple(readings)))


def _case(result: Result, new: Result) -> JUnitCase:
    entry = result.entry
    about = JUnitCase(entry.kernel, entry.name, seconds=result.seconds)
    if result.is_well:
        return about
    if new.is_well:
        known = len(list(failures([result])))
        return about._replace(outcome=SKIPPED, message=f"{known} known failure{'s' * (known != 1)}")
    sample = example(new)
    outcome, message = (FAILED, _message(sample)) if new.state == ANSWERED else (ERROR, sample.words)
    return about._replace(outcome=outcome, message=message, text=tables.shown(sample))


def _message(sample: Example) -> str:
    where = f"line {sample.line}: " if sample.line else ""
    return (
        f"{where}{sample.kind}{f' {sample.misread.key}' if sample.misread is not None and sample.misread.key else ''}"
    )


def _location(results: Results, sample: Example) -> dict[str, object]:
    """Return the text's location, if it is a separate file."""
    entry = next(
        r.entry for r in results.tally.results if (r.entry.kernel, r.entry.name) == (sample.kernel, sample.name)
    )
    path = os.path.join(entry.place, entry.kernel, entry.name, TEXT)
    place: dict[str, object] = {"file": path} if os.path.isfile(path) else {}
    return {
        **place,
        **({"line": sample.line} if place and sample.line else {}),
        "title": f"{sample.kernel}/{sample.name}",
    }
