"""A kernel's answers to all questions: known ones, and those that were recorded of its build."""

from __future__ import annotations

from typing import Any

from kprobe_sim.builds.profile import Profile
from kprobe_sim.questions.answers import ask


def test_answers(tracefs: Any, workload: Any, recorded: Profile) -> None:
    answers = ask(tracefs, workload, recorded.version)
    assert answers.unknown == {}
    assert answers.values == recorded.answers
