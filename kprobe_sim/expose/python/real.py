"""The functions of the real `os`, saved before anything patches it.

They are fields of an object because pyfakefs replaces modules and functions that are attributes of modules.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from kprobe_sim.named_tuple import NamedTuple


class RealCalls(NamedTuple):
    """The functions of the real machine that the patches themselves use."""

    eventfd: Callable[..., int]
    read: Callable[[int, int], bytes]
    write: Callable[[int, bytes], int]
    close: Callable[[int], None]
    dup: Callable[[int], int]
    dup2: Callable[..., int]
    fstat: Callable[[int], os.stat_result]
    getcwd: Callable[[], str]
    getpid: Callable[[], int]
    get_blocking: Callable[[int], bool]

    @classmethod
    def of(cls, module: Any) -> RealCalls:
        """Take them from the module `os`, or from the real one under pyfakefs' fake."""
        real = getattr(module, "os_module", module)
        names = ("eventfd", "read", "write", "close", "dup", "dup2", "fstat", "getcwd", "getpid", "get_blocking")
        return cls(*(getattr(real, name) for name in names))


REAL = RealCalls.of(os)
