"""A simulated Linux kernel whose tracefs behaves: test tools that place probes without root and without a kernel."""

from kprobe_sim.kernel import SimulatedKernel
from kprobe_sim.task import Task

__all__ = ["SimulatedKernel", "Task"]
