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

MANY = 20  # failures that are listed, of those that are new and those that are repaired


class Results(NamedTuple):
    """The results of all texts and, with a baseline, what is new and what is repaired beside it."""

    found: Tally
    change: Change | None = None
    words: str = ""  # what to say of the baseline

    @property
    def is_well(self) -> bool:
        """True if nothing was misread, or nothing but what the baseline knows."""
        return self.found.is_well if self.change is None else not self.change.new

    def told(self) -> Tally:
        """Return the results without what the baseline knows."""
        if self.change is None:
            return self.found
        return self.found._replace(results=[_new(result, self.change.new) for result in self.found.results])


def text(results: Results) -> str:
    """Return the report for people."""
    if results.change is None:
        return tables.text(results.found)
    new = results.told()
    return "\n".join(
        [tables.grids(results.found), *map(tables.shown, examples(new)), _changed(results)]
    ) + tables.summary(results.found)


def as_json(results: Results) -> str:
    """Return all that is known as JSON."""
    said = as_dict(results.found)
    if results.change is not None:
        said["is_well"] = results.is_well
        said["baseline"] = {
            "known": len(results.change.known),
            "new": [one._asdict() for one in ordered(results.change.new)],
            "repaired": [one._asdict() for one in ordered(results.change.repaired)],
        }
    return json.dumps(said, indent=1) + "\n"


def as_junit(results: Results) -> str:
    """Return JUnit's XML: a case for each text; one with nothing but what the baseline knows is skipped."""
    pairs = zip(results.found.results, results.told().results, strict=True)
    return junit("kprobe test-parser", [_case(result, new) for result, new in pairs])


def github(results: Results) -> str:
    """Return an annotation for the shortest text with each defect that is misread, and a summary."""
    lines = [annotation("error", tables.shown(one), _place(results, one)) for one in examples(results.told())]
    return "".join(lines) + ("" if results.change is None else _changed(results)) + tables.summary(results.found)


FORMATS: dict[str, Callable[[Results], str]] = {"text": text, "json": as_json, "junit": as_junit, "github": github}


def _changed(results: Results) -> str:
    assert results.change is not None
    lines = [results.words]
    for title, found in (("new", results.change.new), ("repaired", results.change.repaired)):
        if found:
            listed = ordered(found)
            lines += [f"{title}:", *(f"  {one}" for one in listed[:MANY])]
            lines += [f"  and {len(listed) - MANY} more"] if len(listed) > MANY else []
    return "".join(f"{line}\n" for line in lines)


def _new(result: Result, new: Collection[Failure]) -> Result:
    """Return a result without failures that aren't new."""
    own = [one for one in failures([result]) if one in new]
    if result.state != ANSWERED:
        return result if own else result._replace(state=ANSWERED, found=result.found._replace(readings=()))
    readings = []
    for reading in result.found.readings:
        keys = {(one.kind, one.key) for one in own if one.record == reading.number + 1}
        misread = tuple(one for one in reading.misread if (one.kind, one.key) in keys)
        readings += [reading._replace(misread=misread)] if misread else []
    return result._replace(found=result.found._replace(readings=tuple(readings)))


def _case(result: Result, new: Result) -> JUnitCase:
    entry = result.entry
    about = JUnitCase(entry.kernel, entry.name, seconds=result.seconds)
    if result.is_well:
        return about
    if new.is_well:
        known = len(list(failures([result])))
        return about._replace(outcome=SKIPPED, message=f"{known} known failure{'s' * (known != 1)}")
    one = example(new)
    outcome, message = (FAILED, _message(one)) if new.state == ANSWERED else (ERROR, one.words)
    return about._replace(outcome=outcome, message=message, text=tables.shown(one))


def _message(one: Example) -> str:
    where = f"line {one.line}: " if one.line else ""
    return f"{where}{one.kind}{f' {one.misread.key}' if one.misread is not None and one.misread.key else ''}"


def _place(results: Results, one: Example) -> dict[str, object]:
    """Return where the text is, if it is a file of its own."""
    entry = next(r.entry for r in results.found.results if (r.entry.kernel, r.entry.name) == (one.kernel, one.name))
    path = os.path.join(entry.place, entry.kernel, entry.name, TEXT)
    place: dict[str, object] = {"file": path} if os.path.isfile(path) else {}
    return {**place, **({"line": one.line} if place and one.line else {}), "title": f"{one.kernel}/{one.name}"}
