"""The version of the distribution kprobe-sim, which is stated in pyproject.toml and nowhere else."""

from __future__ import annotations

import os

CHECKOUT = os.path.join(os.path.dirname(__file__), "..", "pyproject.toml")


def version() -> str:
    """Return the version that was installed, or in a checkout that wasn't, what it says of itself."""
    from importlib import metadata  # slow to import, as tomllib is

    try:
        return metadata.version("kprobe-sim")
    except metadata.PackageNotFoundError:
        import tomllib

        with open(CHECKOUT, "rb") as file:
            return str(tomllib.load(file)["project"]["version"])
