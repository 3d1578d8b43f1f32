"""A difference written as a test that is ready to run, on the simulator and on the kernel."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from kprobe_lab.campaign.difference import Difference
from kprobe_lab.operations.operation import Observed, Operation, Outcome
from kprobe_lab.operations.reference import simulated
from kprobe_lab.operations.side import Side

_TEXT = '''"""TO BE RENAMED, file and function too: which rule of the kernel does this show?

Found by a campaign on {release}, seed {seed}: {asked}.
"""
# ruff: noqa: E501 - recorded text has lines of any length


from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import {names}

OPERATIONS: list[Operation] = [
{operations}
]
KERNEL = [
{answers}
]


@pytest.mark.parametrize("spec", [{specs}])
def test_{name}(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
'''


def answers(spec: str, operations: Sequence[Operation]) -> list[Outcome]:
    """Perform operations on the simulator ("sim:6.12") or a guest ("vm:6.12"); return each outcome.

    Calls that an oracle observed are replayed on the simulator; a guest can't replay them.
    """
    if spec.startswith("vm:"):
        from kprobe_lab.operations.quiet import quiet_guest  # needs the extra [vm]

        side = quiet_guest(spec.partition(":")[2]).side
    else:
        side = simulated(spec)
    try:
        return [_answer(side, operation) for operation in operations]
    finally:
        side.close()


def _answer(side: Side, operation: Operation) -> Outcome:
    if isinstance(operation, Observed):
        side.replay(operation)
        return []
    return side.run(operation)


def as_test(difference: Difference, kernel: str, guest: str, seed: int) -> str:
    """Return the text of a test that fails until the simulator answers as the kernel did, under a proposed name."""
    kinds = {type(operation).__name__ for operation in difference.operations}
    if "Observed" in kinds:
        kinds.add("Hit")
    text = "\n".join(f"    {operation!r}," for operation in difference.operations)
    specs = [f'"sim:{kernel}"']
    if "Observed" not in kinds:
        specs.append(f'pytest.param("vm:{guest}", marks=pytest.mark.vm)')
    return _TEXT.format(
        seed=seed,
        release=guest,
        asked=difference.asked,
        names=", ".join(sorted({*kinds, "Operation"})),
        operations=text,
        answers="\n".join(f"    {answer!r}," for answer in difference.answers),
        specs=", ".join(specs),
        name=proposed_name(difference),
    )


def write_test(difference: Difference, kernel: str, guest: str, seed: int, directory: Path) -> Path:
    """Write the test into a directory, without overwriting another test; return the file."""
    directory.mkdir(parents=True, exist_ok=True)
    text = as_test(difference, kernel, guest, seed)
    stem = f"test_{proposed_name(difference)}"
    path = directory / f"{stem}.py"
    for number in count(2):
        if not path.exists() or path.read_text(encoding="utf-8") == text:
            break
        path = directory / f"{stem}_{number}.py"
    path.write_text(text, encoding="utf-8")
    return path


def proposed_name(difference: Difference) -> str:
    """Return a provisional name for the test: the area, the file, and words of the kernel's answer."""
    file = getattr(difference.operations[-1], "path", "").rpartition("/")[2]
    answer = difference.kernel
    if isinstance(answer, bytes):
        known = difference.simulator.splitlines() if isinstance(difference.simulator, bytes) else []
        answer = next((line for line in answer.splitlines() if line not in known), b"").decode(errors="replace")
        answer = answer.rpartition("error: ")[2]
    words = [word for word in re.findall("[a-z_]{3,}", str(answer).lower()) if word != file]
    return "_".join(re.sub("[^a-z0-9]+", "_", word).strip("_") for word in (difference.area, file, *words[:4]) if word)
