"""From a list of operations that shows a difference to the smallest one that still does, searched by hypothesis."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from kprobe_lab.generators.traces import WIPE
from kprobe_lab.operations.operation import OURS, Handle, Make, Operation, Write
from kprobe_vm.errors import ExtraMissing

try:
    from hypothesis import HealthCheck, Phase, find, settings
    from hypothesis.errors import NoSuchExample
    from hypothesis.strategies import integers, tuples
except ModuleNotFoundError:
    raise ExtraMissing(
        "kprobe-vm diff shrinks with hypothesis: pip install 'kprobe-sim[campaign]', or --no-shrink"
    ) from None


Item = TypeVar("Item")
_TOKENS = re.compile(rb"\n|[^ \n]+|.", re.DOTALL)
_KEPT = 1 << 16  # 0, the simplest number, drops a part; nearly every other first guess keeps them all
_RUNS = 16  # parts, or runs of parts, to try at a time: hypothesis is slow with long tuples
_BYTEWISE = 80  # data up to this length is also cut within words


def shrink(
    operations: Sequence[Operation], differs: Callable[[Sequence[Operation]], bool], attempts: int = 400
) -> list[Operation]:
    """Return the fewest and shortest operations that still differ; `differs` is called at most `attempts` times."""
    left = attempts

    def asked(candidate: Sequence[Operation]) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and differs(candidate)

    best = _fewest(operations, asked, _is_needed)
    for index in range(len(best)):
        best = _with_less(best, index, asked)
    return best


def _with_less(
    operations: list[Operation], index: int, differs: Callable[[Sequence[Operation]], bool]
) -> list[Operation]:
    """Return the operations with that one shortened as far as they still differ."""

    def put(changed: Operation) -> list[Operation]:
        return [*operations[:index], changed, *operations[index + 1 :]]

    match operations[index]:
        case Write(path, data, flags) as write if not _is_needed(write):
            return put(Write(path, _shortest(data, lambda data: differs(put(Write(path, data, flags)))), flags))
        case Handle(path, flags, steps) as handle:
            fewest = tuple(_fewest(steps, lambda steps: differs(put(Handle(path, flags, tuple(steps))))))
            handle = Handle(path, flags, fewest)
            for at in range(len(fewest)):
                handle = _with_less_written(handle, at, lambda handle: differs(put(handle)))
            return put(handle)
    return operations


def _with_less_written(handle: Handle, index: int, differs: Callable[[Handle], bool]) -> Handle:
    """Return the open file with the data of that step shortened as far as it still differs."""
    path, flags, steps = handle

    def put(data: bytes) -> Handle:
        return Handle(path, flags, (*steps[:index], ("write", data), *steps[index + 1 :]))

    match steps[index]:
        case ("write", data):
            return put(_shortest(data, lambda data: differs(put(data))))
    return handle


def _is_needed(operation: Operation) -> bool:
    """True for parts that keep other tasks' hits out of a trace, and for the oracle's."""
    if not isinstance(operation, Write | Make):
        return operation == WIPE
    if isinstance(operation, Write) and (operation.data in OURS or b":zz_" in operation.data):
        return True
    return operation.path.startswith(("instances/zz_o", "events/zz_"))


def _shortest(data: bytes, differs: Callable[[bytes], bool]) -> bytes:
    """Return the data cut to the fewest words, and then the fewest bytes, that still differ."""
    data = b"".join(_fewest(_TOKENS.findall(data), lambda words: differs(b"".join(words))))
    if len(data) > _BYTEWISE:
        return data
    return bytes(_fewest(data, lambda kept: differs(bytes(kept))))


def _fewest(
    parts: Sequence[Item],
    differs: Callable[[Sequence[Item]], bool],
    is_needed: Callable[[Item], bool] = lambda part: False,
) -> list[Item]:
    """Return the fewest parts that still differ, in their order, with all needed ones; runs are dropped first."""
    best = list(parts)
    size = -(-len(best) // _RUNS)
    while size:
        runs = [best[at : at + size] for at in range(0, len(best), size)]
        best = _without(runs, differs, is_needed)
        size = min(size // 4, -(-len(best) // _RUNS)) or size // 2
    return best


def _without(
    runs: Sequence[list[Item]], differs: Callable[[Sequence[Item]], bool], is_needed: Callable[[Item], bool]
) -> list[Item]:
    """Return the parts of the fewest runs that still differ."""

    def left(numbers: tuple[int, ...]) -> list[Item]:
        return [part for run, number in zip(runs, numbers, strict=True) for part in run if number or is_needed(part)]

    # most numbers keep runs, and each try costs a guest's time
    answers = {(True,) * len(runs): True}

    def still(numbers: tuple[int, ...]) -> bool:
        kept = tuple(map(bool, numbers))
        if kept not in answers:
            answers[kept] = differs(left(numbers))
        return answers[kept]

    search = settings(
        database=None,
        deadline=None,
        max_examples=1000,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    try:
        return left(find(tuples(*[integers(0, _KEPT)] * len(runs)), still, settings=search, random=Random(0)))
    except NoSuchExample:
        return left((1,) * len(runs))
