"""All questions, and the rows of the gate tables that have none."""

from __future__ import annotations

from kprobe_sim.builds.questions import definitions, early, files, kinds, shown, triggers
from kprobe_sim.builds.questions.question import Question, Unasked

_PAGES = (definitions, shown, files, kinds, triggers, early)
QUESTIONS: tuple[Question, ...] = tuple(question for page in _PAGES for question in page.QUESTIONS)
UNASKED: tuple[Unasked, ...] = tuple(row for page in _PAGES for row in page.UNASKED)
