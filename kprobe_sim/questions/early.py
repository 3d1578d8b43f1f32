"""The rows of kernels before 5.10: recorded when such a kernel still ran, and told by the version since."""

from __future__ import annotations

from kprobe_sim.builds.filter_gates import EARLY_FILTERS
from kprobe_sim.builds.rows.early import EARLY
from kprobe_sim.questions.question import Question, Unasked

_REASON = (
    "no kernel before 5.10 can be booted here: fixtures/definitions and fixtures/filters have what 3.2 to 4.19 said"
)
QUESTIONS: tuple[Question, ...] = ()
UNASKED = tuple(Unasked(name, _REASON) for name in (*[row.name for row in EARLY], *EARLY_FILTERS))
