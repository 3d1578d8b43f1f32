"""A kernel's profile and the actions of tasks -> a simulated kernel, whose tracefs shows them.

Start with `simulated`: `SimulatedKernel`; activities and the workload of tests drive it.
"""
