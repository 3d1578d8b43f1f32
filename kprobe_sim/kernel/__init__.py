"""The simulated kernel, assembled, and what drives it: activities, the workload of tests, backend specs.

May use everything below.  Start with `simulated`: `SimulatedKernel`.
"""
