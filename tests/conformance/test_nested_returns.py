"""Several return probes on one function, and what entry probes see of them.

Found by the campaign (kprobe-vm diff) as differences between the simulator and a real 6.1 kernel.
"""

from __future__ import annotations

from typing import Any

import pytest

from .builds import EPROBES, Build
from .text import define, show_only, traced


@pytest.fixture
def probed(tracefs: Any, workload: Any, build: Build) -> None:
    define(
        tracefs,
        "r:g/r1 ksys_fadvise64_64 $retval:s32",
        "p:g/e ksys_fadvise64_64 $stack0:symbol +0($stack):symbol",
        "r:g/r2 ksys_fadvise64_64",
        "r:g/r3 ksys_fadvise64_64",
    )
    show_only(tracefs, "workload", "g/r1", "g/e", "g/r2", "g/r3")
    workload.fadvise(-2, 0, 0)


def test_only_the_newest_knows_the_caller(tracefs: Any, probed: None, build: Build, choose: Any) -> None:
    """Up to 5.14 all know it."""
    caller = choose({"": build.fadvise_entry, EPROBES: "[unknown/kretprobe'd]"})
    assert traced(tracefs)[1:] == [
        f"r1: ({caller} <- ksys_fadvise64_64) arg1=-9",
        f"r2: ({caller} <- ksys_fadvise64_64)",
        f"r3: ({build.fadvise_entry} <- ksys_fadvise64_64)",
    ]


def test_the_return_address_is_replaced_on_the_stack(tracefs: Any, probed: None, build: Build) -> None:
    assert traced(tracefs)[0] == f"e: ({build.fadvise}) arg1={build.trampoline} arg2={build.trampoline}"
