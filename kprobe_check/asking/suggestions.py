"""Replacements for a statement that some kernel refuses or understands differently.

Each text is tried on all kernels first, and offered only if all take it, alike and as intended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kprobe_check.asking import meanings
from kprobe_check.asking.asked_kernel import Answer, AskedKernel
from kprobe_check.asking.rewrites import rewrites, user_string
from kprobe_check.statement import Statement

USER_MEMORY = "ustring for what is in user memory, on every architecture"
_TRIALS = 60  # texts that are tried for one statement
_STEPS = 3  # rewrites on top of one another


class Suggestion(NamedTuple):
    """A text that all kernels take, and the rewrites that led to it."""

    text: str
    because: str


class Trial:
    """Kernels on which texts are tried; the same one is tried once."""

    def __init__(self, asked: Sequence[AskedKernel]) -> None:
        self._asked = list(asked)

    def suggestion(self, statement: Statement, answers: Sequence[Answer]) -> Suggestion | None:
        """Return the first text, by the fewest rewrites, that all kernels take as intended; None if there is none."""
        seen = {statement.text}
        level: list[tuple[Statement, Sequence[Answer], list[str]]] = [(statement, answers, [])]
        left = _TRIALS
        for _ in range(_STEPS):
            following: list[tuple[Statement, Sequence[Answer], list[str]]] = []
            for one, said, steps in level:
                for text, because in rewrites(one, said, self._asked):
                    if text in seen or not left:
                        continue
                    seen.add(text)
                    left -= 1
                    new = one._replace(text=text)
                    path = [*steps, because]
                    found = self._answers(new)
                    if found is None:
                        return self._said_better(new, path)
                    following.append((new, found, path))
            level = following
        return None

    def advice(self, statement: Statement) -> Suggestion | None:
        """Return a clearer text for a statement that all kernels take: `ustring` for user memory."""
        text = user_string(statement)
        if not text or self._answers(statement._replace(text=text)) is not None:
            return None
        return Suggestion(text, USER_MEMORY)

    def _said_better(self, statement: Statement, steps: Sequence[str]) -> Suggestion:
        advice = self.advice(statement)
        text, more = (statement.text, []) if advice is None else (advice.text, [advice.because])
        return Suggestion(text, "; ".join([*steps, *more]))

    def _answers(self, statement: Statement) -> list[Answer] | None:
        """Return the kernels' answers to a text unless all take it as intended; None if they do."""
        answers = [one.ask(statement) for one in self._asked]
        is_good = (
            all(answer.is_taken for answer in answers)
            and not any(meanings.differences(answers))
            and not any(meanings.remarks(statement, one) for one in self._asked)
            and not any(meanings.moved(statement, self._asked))
        )
        return None if is_good else answers
