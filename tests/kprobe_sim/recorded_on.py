"""The kernels that traces and answers of kernels before 5.10 were recorded of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kprobe_sim import SimulatedKernel

EARLY = Path(__file__).parents[2] / "fixtures" / "early"


def recorded_on(series: str, **words: Any) -> SimulatedKernel:
    """Return the simulated kernel of the very build that the fixtures of a series are of.

    That is the one of this name, unless it has its profile beside its traces: `sim:4.19` is a build of 4.19.108 that a
    guest ran, and most of its fixtures are of another, of which less is known.
    """
    profile = EARLY / series / "recorded.kprofile"
    return SimulatedKernel(str(profile) if profile.exists() else series, **words)
