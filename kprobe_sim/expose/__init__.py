"""System calls of programs -> the simulated files: in patched Python, on a FUSE mount, in namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kprobe_sim.expose.python.guard import NotCovered
    from kprobe_sim.expose.python.patches import patched

__all__ = ["NotCovered", "patched"]


if not TYPE_CHECKING:  # a type checker would think that every name is defined

    def __getattr__(name: str) -> object:  # the kernel imports this package and needs nothing of it
        if name in __all__:
            from importlib import import_module  # it asks sys.modules: pyfakefs forgets modules, not packages

            return getattr(import_module("kprobe_sim.expose.python.patches"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
