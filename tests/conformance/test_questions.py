"""A kernel's answers to all questions: known ones, and those that were recorded of its build."""

from __future__ import annotations

from typing import Any

from kprobe_sim.builds import profile
from kprobe_sim.questions.answers import ask


def test_answers(tracefs: Any, workload: Any, release: str) -> None:
    recorded = [profile.load(name) for name in profile.available() if name == release]
    answers = ask(tracefs, workload, recorded[0].version if recorded else release)
    assert answers.unknown == {}
    for build in recorded:
        assert answers.values == build.answers
