"""Operations that compare kernels (docs/evidence/changes.md), on the kernel under test and on its simulator."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from kprobe_lab.changes.corpus import corpus
from kprobe_lab.changes.language import shell
from kprobe_lab.changes.response import asked
from kprobe_lab.operations.reference import simulated
from kprobe_lab.operations.side import Side
from kprobe_sim.builds.profile import Profile

EVERY = 18  # of the operations


def test_the_simulator_answers_operations_as_the_kernel(tracefs: Any, recorded: Profile) -> None:
    kernel = Side(tracefs)
    with closing(simulated(f"sim:{recorded.path}")) as simulator:
        sample = [probing.steps for probing in corpus()][::EVERY]
        differing = {shell(steps): (asked(simulator, steps), asked(kernel, steps)) for steps in sample}
    assert len(differing) > 40
    assert {line: pair for line, pair in differing.items() if pair[0] != pair[1]} == {}
