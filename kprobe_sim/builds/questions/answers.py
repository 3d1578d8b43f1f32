"""A kernel's answers as a recorder stores them, in JSON (entry point group kprobe.questions)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kprobe_sim.builds.gates import GATES, filter_gates, gates_for
from kprobe_sim.builds.gates.question import ABSENT, Question
from kprobe_sim.builds.profile import version_number
from kprobe_sim.builds.questions.ask import NO_PLACES, AskedTracefs, Asker
from kprobe_sim.kernel.workload import Workload
from kprobe_sim.named_tuple import NamedTuple

QUESTIONS: Mapping[str, Question] = {
    name: gate.question for name, gate in GATES.items() if isinstance(gate.question, Question)
}


class Differences(NamedTuple):
    """What a kernel answered, by gate.

    `values` go into its profile: lists stand for tuples and bytes.  `contradicted` has the gates for which the version
    said something else, as (that, the value now known); `unknown` the answers that no known value fits; `missing` what
    the kernel or the caller lacks for a question.
    """

    values: dict[str, Any]
    contradicted: dict[str, tuple[Any, Any]]
    unknown: dict[str, str]
    missing: dict[str, str]


def ask(tracefs: AskedTracefs, workload: Workload, version: str, places: Mapping[str, str] = NO_PLACES) -> Differences:
    """Ask a kernel of a version ("6.1.190") all questions that it can answer.

    `places` has the known `ask.PLACES`.  Raises OSError if the effects of a question can't be undone.
    """
    asker = Asker(tracefs, workload, places)
    number = version_number(version)
    expected = {**gates_for(number)._asdict(), **filter_gates(number)._asdict()}
    answers = Differences({}, {}, {}, {})
    for name, question in QUESTIONS.items():
        if question.unless and expected[question.unless]:
            answers.missing[name] = f"an answer that would leave it alive: {question.unless}"
            continue
        if missing := asker.missing(question):
            answers.missing[name] = missing
            continue
        answer = asker.ask(question)
        if answer not in question.values:
            answers.unknown[name] = answer
        elif (value := question.values[answer]) is not ABSENT:
            answers.values[name] = list(value) if isinstance(value, (tuple, bytes)) else value
            if value != expected[name]:
                answers.contradicted[name] = (expected[name], value)
    return answers
