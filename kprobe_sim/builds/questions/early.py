"""The rows for kernels before 5.10: some recorded from such a kernel, others decided by its version."""

from __future__ import annotations

from kprobe_sim.builds.filter_gates import EARLY_FILTERS
from kprobe_sim.builds.questions.question import Question, Unasked
from kprobe_sim.builds.rows.early import EARLY

_REASON = (
    "no kernel before 5.10 can be had as a package: fixtures/definitions and fixtures/filters say what 3.2 to 5.4 did"
)
QUESTIONS = (
    # of a module whose name begins with a digit, which isn't loaded: a digit alone was taken for that of an address
    Question(
        "address_or_symbol", ("write kprobe_events p:zz/q 8nomod:nofunc",), "errno", {"ok": True, "EINVAL": False}
    ),
)
_ASKED = {question.row for question in QUESTIONS}
UNASKED = tuple(Unasked(name, _REASON) for name in (*[row.name for row in EARLY], *EARLY_FILTERS) if name not in _ASKED)
