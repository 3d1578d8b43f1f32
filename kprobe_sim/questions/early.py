"""The rows for kernels before 5.10: some recorded from such a kernel, others decided by its version."""

from __future__ import annotations

from kprobe_sim.builds.filter_gates import EARLY_FILTERS
from kprobe_sim.builds.rows.early import EARLY
from kprobe_sim.questions.question import Question, Unasked

_REASON = (
    "no kernel before 5.10 can be had as a package: fixtures/definitions and fixtures/filters say what 3.2 to 5.4 did"
)
QUESTIONS: tuple[Question, ...] = ()
UNASKED = tuple(Unasked(name, _REASON) for name in (*[row.name for row in EARLY], *EARLY_FILTERS))
