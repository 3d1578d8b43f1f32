"""From a list of operations that shows a difference to the smallest one that still does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from kprobe_vm.operation import OURS, Call, Handle, Make, Operation, Sweep, Write
from kprobe_vm.traces import WIPE

__all__ = ["shrink"]

Item = TypeVar("Item")
_TOKENS = re.compile(rb"\n|[^ \n]+|.", re.DOTALL)


def shrink(
    operations: Sequence[Operation], differs: Callable[[Sequence[Operation]], bool], attempts: int = 120
) -> list[Operation]:
    """Return as few and as short operations as differ; `differs` is asked at most `attempts` times."""
    best = list(operations)
    left = attempts
    pinned = [item for item in best if isinstance(item, Write | Make | Call) and _is_needed(item)]

    def better(candidate: list[Operation]) -> bool:
        nonlocal best, left
        if left <= 0 or candidate == best or [item for item in candidate if item in pinned] != pinned:
            return False
        left -= 1
        if not differs(candidate):
            return False
        best = candidate
        return True

    for few in (best[-1:], [best[0], best[-1]], best[-2:], best[-3:]):
        if better(few):
            break
    changed = True
    while changed and left > 0:
        changed = False
        for candidate in _fewer(best):
            if better(candidate):
                changed = True
                break
    for index in range(len(best)):
        changed = True
        while changed and left > 0:
            changed = any(better([*best[:index], smaller, *best[index + 1 :]]) for smaller in _smaller(best[index]))
    return best


def _is_needed(operation: Write | Make | Call) -> bool:
    """True for what keeps others' hits out of a trace, and for the oracle's own."""
    if isinstance(operation, Call):
        return operation == WIPE
    if isinstance(operation, Write) and (operation.data in OURS or b":zz_" in operation.data):
        return True
    return operation.path.startswith(("instances/zz_o", "events/zz_"))


def _fewer(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Yield the list without a half, a quarter, ... without one."""
    size = len(items) // 2
    while size:
        for at in range(0, len(items), size):
            yield [*items[:at], *items[at + size :]]
        size //= 2


def _smaller(operation: Operation) -> Iterator[Operation]:
    match operation:
        case Write(path, data, flags) if not _is_needed(operation):
            for shorter in _shorter(data):
                yield Write(path, shorter, flags)
        case Handle(path, flags, steps):
            for fewer in _fewer(steps):
                yield Handle(path, flags, tuple(fewer))
            for index, step in enumerate(steps):
                if isinstance(step, tuple) and step[0] == "write":
                    for shorter in _shorter(step[1]):
                        yield Handle(path, flags, (*steps[:index], ("write", shorter), *steps[index + 1 :]))
        case Sweep() | _:
            return


def _shorter(data: bytes) -> Iterator[bytes]:
    tokens = _TOKENS.findall(data)
    for fewer in _fewer(tokens):
        yield b"".join(fewer)
    if len(data) <= 80:
        for fewer in _fewer([data[at : at + 1] for at in range(len(data))]):
            yield b"".join(fewer)
