"""A kernel's answers as a recorder stores them, in JSON (entry point group kprobe.questions)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kprobe_sim.builds.filter_gates import filter_gates
from kprobe_sim.builds.gates import gates_for
from kprobe_sim.builds.profile import version_number
from kprobe_sim.builds.questions.ask import NO_PLACES, AskedTracefs, Asker
from kprobe_sim.builds.questions.question import ABSENT
from kprobe_sim.builds.questions.table import QUESTIONS
from kprobe_sim.kernel.workload import Workload
from kprobe_sim.named_tuple import NamedTuple


class Differences(NamedTuple):
    """What a kernel answered, by row.

    `values` go into its profile: lists stand for tuples and bytes.  `contradicted` has the rows for which the version
    said something else, as (that, the value now known); `unknown` the answers that no known value fits; `missing` what
    wasn't there to be asked about.
    """

    values: dict[str, Any]
    contradicted: dict[str, tuple[Any, Any]]
    unknown: dict[str, str]
    missing: dict[str, str]


def ask(tracefs: AskedTracefs, workload: Workload, version: str, places: Mapping[str, str] = NO_PLACES) -> Differences:
    """Ask a kernel of a version ("6.1.190") all questions for which it has what they need.

    `places` has those of `question.PLACES` that were found.  Raise OSError where what was done can't be undone.
    """
    asker = Asker(tracefs, workload, places)
    number = version_number(version)
    expected = {**gates_for(number)._asdict(), **filter_gates(number)._asdict()}
    answers = Differences({}, {}, {}, {})
    for question in QUESTIONS:
        if question.unless and expected[question.unless]:
            answers.missing[question.row] = f"an answer that would leave it alive: {question.unless}"
            continue
        if missing := asker.missing(question):
            answers.missing[question.row] = missing
            continue
        seen = asker.ask(question)
        if not seen.known:
            answers.unknown[seen.row] = seen.answer
        elif seen.value is not ABSENT:
            value = seen.value
            answers.values[seen.row] = list(value) if isinstance(value, (tuple, bytes)) else value
            if value != expected[seen.row]:
                answers.contradicted[seen.row] = (expected[seen.row], value)
    return answers
