"""How fast this host is just now: what deadlines are multiplied by, so that a busy host is not called a dead guest."""

from __future__ import annotations

import os

__all__ = ["NOMINAL_BOOT", "NOMINAL_CLONE", "SLOWEST", "after_start", "before_start"]

# Seconds, on a host for which the deadlines fit as they are: two cores, no KVM, something else going on.
NOMINAL_PROGRAM = 0.15  # qemu --version
NOMINAL_BOOT = 6.0
NOMINAL_CLONE = 0.6
SLOWEST = 20.0  # the largest factor: beyond it a host is of no use


def before_start(program_seconds: float, load: float | None = None, cores: int | None = None) -> float:
    """Return the factor before anything is known but how long QEMU took to say its version, and the host's load."""
    if load is None:
        load = os.getloadavg()[0]
    if cores is None:
        cores = len(os.sched_getaffinity(0))
    return _bounded(max(program_seconds / NOMINAL_PROGRAM, load / cores / 2))


def after_start(seconds: float, nominal: float) -> float:
    """Return the factor once a start was measured that takes `nominal` seconds on an ordinary host."""
    return _bounded(seconds / nominal)


def _bounded(factor: float) -> float:
    return min(max(1.0, factor), SLOWEST)
