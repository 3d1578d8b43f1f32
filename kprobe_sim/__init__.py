"""A simulated Linux kernel with the tracefs of a real one: test tools that place probes without root or a kernel.

A name is loaded when it is first used: pytest imports this package in every run, for the plugin.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe_sim.kernel.simulated import SimulatedKernel
    from kprobe_sim.kernel.workload import Workload
    from kprobe_sim.machine.task import Task
    from kprobe_sim.probes.hits.call import Call

__all__ = ["Call", "SimulatedKernel", "Task", "Workload"]

_HOMES = {
    "Call": "probes.hits.call",
    "SimulatedKernel": "kernel.simulated",
    "Task": "machine.task",
    "Workload": "kernel.workload",
}


if TYPE_CHECKING:
    __version__: str
else:  # of which type checkers would learn that every name is there

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name == "__version__":
            return import_module(f"{__name__}.version").version()
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # not kept here: pyfakefs has modules that were imported in a test imported again after it
        found: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
