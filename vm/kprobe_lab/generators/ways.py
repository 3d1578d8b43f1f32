"""Oddities of some kernels that cases have to avoid."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple


class Ways(NamedTuple):
    """What one kernel does."""

    faults_missed: bool = False  # a read that fails counts as a miss in kprobe_profile, as on 5.10
    variables_oops: bool = False  # a refused variable of a histogram crashes the kernel, as on 5.4
    keys_hashed: bool = False  # equal entries of a histogram come in the order of their keys' hashes, as on 5.4

    @classmethod
    def of(cls, functions: Collection[str], rows: Mapping[str, Any]) -> Ways:
        """Derive them from the names of a kernel's functions and from the rows of its simulator's gate tables."""
        return cls(
            faults_missed="kprobe_fault_handler" in functions,
            variables_oops=bool(rows["refused_variables_oops"]),
            keys_hashed=not rows["hist_keys_ordered"],
        )
