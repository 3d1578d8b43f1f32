"""The distributions beside the package that bring kernels, and which: for errors to name the one that has a kernel."""

from __future__ import annotations

from typing import Final

BROUGHT: Final = {
    "kprobe-sim-profiles": (
        "6.12.117+deb13-amd64",
        "6.12.117+deb13-rt-amd64",
        "6.16.12+deb13-cloud-amd64",
        "6.17.13+deb13-cloud-amd64",
        "6.18.15+deb13-cloud-amd64",
        "6.19.14+deb13-cloud-amd64",
        "7.0.13+deb13-cloud-amd64",
        "7.1.13+deb13-cloud-amd64",
    ),
    "kprobe-sim-profiles-old": (
        *(f"2.6.{number}" for number in range(33, 40)),
        *("3.0.0", "3.1.10", "3.2.4", "3.13.10", "4.4.11+", "4.9.229", "4.14.67", "4.19.108", "5.4.273"),
    ),
}
"""The releases that each has, oldest first."""


def way(name: str) -> str:
    """Say how to get a distribution."""
    return f"in a checkout of kprobe-sim, `pip install ./distributions/{name}` installs it (docs/install.md)"
