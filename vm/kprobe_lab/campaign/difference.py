"""The first answers in which simulator and kernel differ, and what makes two differences distinct."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from kprobe_lab.operations.operation import Observed, Operation, Outcome
from kprobe_lab.operations.side import Side

_BYTES = re.compile(rb"(?m)^bytes: (\d+)$")
_TIME_EXTEND = 8  # bytes in the ring buffer
_RUN = re.compile(r"(.)\1{20,}")


class Difference(NamedTuple):
    """The first answers in which two sides differ, after the operations that lead there."""

    area: str
    operations: list[Operation]
    asked: str
    simulator: Any
    kernel: Any
    answers: list[Outcome] = []  # the kernel's, to all operations

    def signature(self) -> tuple[str, str, str, str]:
        """Return what distinguishes one difference from another: answers without numbers and names."""
        last = self.operations[-1]
        kind = f"{type(last).__name__} {getattr(last, 'path', '').rpartition('/')[2]}"
        return (
            self.area,
            f"{kind} {self.asked.rpartition('/')[2]}",
            _sketch(self.simulator, self.kernel),
            _sketch(self.kernel, self.simulator),
        )

    def text(self) -> str:
        """Return it in words."""
        lines = [f"--- {self.area}: {self.asked}", *(f"    {_brief(operation)}" for operation in self.operations)]
        ours, theirs = _contrast(self.simulator, self.kernel)
        return "\n".join([*lines, f"  sim:    {_brief(ours)}", f"  kernel: {_brief(theirs)}"])


def _brief(value: Any) -> str:
    """Return a value's text with long runs of one character cut."""
    text = _RUN.sub(lambda match: f"{match[1]}<{len(match[0])}>", repr(value))
    return text if len(text) <= 1600 else f"{text[:1000]} ... {text[-500:]}"


def _lines(answer: Any) -> list[Any]:
    return answer.splitlines() if isinstance(answer, bytes) else answer if isinstance(answer, list) else [answer]


def _contrast(ours: Any, theirs: Any) -> tuple[Any, Any]:
    if not isinstance(ours, bytes) or not isinstance(theirs, bytes):
        return ours, theirs
    mine, yours = _lines(ours), _lines(theirs)
    return (
        [line for line in mine if line not in yours] or ours,
        [line for line in yours if line not in mine] or theirs,
    )


def _sketch(ours: Any, theirs: Any) -> str:
    if isinstance(ours, bytes) and isinstance(theirs, bytes):
        shown = _contrast(ours, theirs)[0]
        first = shown[0] if isinstance(shown, list) and shown else shown
        return (
            "".join("0" if chr(c).isdigit() else chr(c) for c in first[-40:])
            if isinstance(first, bytes)
            else str(first)
        )
    return str(ours)[:30] if isinstance(ours, bytes | list) else str(ours)


def first_difference(area: str, operations: Sequence[Operation], left: Side, right: Side) -> Difference | None:
    """Run operations on two sides until an answer differs."""
    done: list[Operation] = []
    answers: list[Outcome] = []
    for operation in operations:
        if isinstance(operation, Observed):
            if operation.hits is None:
                operation = right.observe(operation)
            if not all(hit.is_complete for hit in operation.hits or ()):
                return None
            left.replay(operation)
            done.append(operation)
            answers.append([])
            continue
        done.append(operation)
        ours, theirs = _guarded(left, operation), right.run(operation)
        answers.append(theirs)
        unequal = _unequal(ours, theirs)
        if unequal is not None:
            return Difference(area, done, *unequal, answers)
    return None


def _guarded(side: Side, operation: Operation) -> Outcome:
    """Run an operation on the simulator; its own exceptions count as answers, which no kernel gives."""
    try:
        return side.run(operation)
    except Exception as error:
        return [("", f"{type(error).__name__}: {error}")]


def _unequal(ours: Outcome, theirs: Outcome) -> tuple[str, Any, Any] | None:
    for mine, yours in zip(ours, theirs, strict=False):
        if mine[0] != yours[0]:
            return f"{mine[0]} | {yours[0]}", mine[1], yours[1]
        if mine[1] != yours[1] and not _apart_in_time_only(mine[1], yours[1]):
            return mine[0], mine[1], yours[1]
    if len(ours) != len(theirs):
        return "count of answers", len(ours), len(theirs)
    return None


def _apart_in_time_only(ours: Any, theirs: Any) -> bool:
    """Return whether two texts of `stats` differ by time extends: 8 bytes for each pause of 134 ms between records."""
    if not isinstance(ours, bytes) or not isinstance(theirs, bytes):
        return False
    mine, yours = _BYTES.search(ours), _BYTES.search(theirs)
    if mine is None or yours is None or _BYTES.sub(b"", ours) != _BYTES.sub(b"", theirs):
        return False
    return (int(mine[1]) - int(yours[1])) % _TIME_EXTEND == 0
