"""Ways to show the simulated tracefs to programs: in-process, patched Python (with pyfakefs), a FUSE mount."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kprobe_sim.expose.python.guard import NotCovered
    from kprobe_sim.expose.python.patches import patched

__all__ = ["NotCovered", "patched"]


if not TYPE_CHECKING:  # of which type checkers would learn that every name is there

    def __getattr__(name: str) -> object:  # the kernel imports this package, and needs none of it
        if name in __all__:
            from importlib import import_module  # looks in sys.modules: pyfakefs forgets modules, not their packages

            return getattr(import_module("kprobe_sim.expose.python.patches"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
