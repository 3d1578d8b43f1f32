"""A kernel's answers to all questions: known ones, and those that were recorded of its build."""

from __future__ import annotations

from typing import Any

from kprobe_sim.builds.profile import Profile
from kprobe_sim.builds.questions.answers import ask

MODULES = {"module_symbols_counted", "vmlinux_wins"}  # a guest may have none


def test_answers(tracefs: Any, workload: Any, recorded: Profile) -> None:
    answers = ask(tracefs, workload, recorded.version)
    assert answers.unknown == {}
    assert answers.missing.keys() <= {"int3_errno", "unsupported_instruction_errno", *MODULES}
    assert answers.contradicted.keys() <= recorded.answers.keys()  # a question newer than the profile: as its version
    asked = {row: value for row, value in recorded.answers.items() if row not in answers.missing}
    assert {row: value for row, value in answers.values.items() if row in recorded.answers} == asked
