"""The symbols of a kernel under comparison, so that generated operations name symbols that exist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Symbols(NamedTuple):
    """Symbols of a kernel, each as (name, address): functions, those of modules as MODULE:NAME, and its own data."""

    text: Sequence[tuple[str, int]]
    data: Sequence[tuple[str, int]]

    @classmethod
    def read(cls, kallsyms: bytes) -> Symbols:
        """Take them from /proc/kallsyms."""
        text: list[tuple[str, int]] = []
        data: list[tuple[str, int]] = []
        for line in kallsyms.decode().splitlines():
            address, kind, name = line.split()[:3]
            module = line.split()[3].strip("[]") + ":" if line.endswith("]") else ""
            if kind in "tTwW":
                text.append((module + name, int(address, 16)))
            elif kind in "dDbBrRA" and not module:
                data.append((name, int(address, 16)))
        return cls(text, data)
