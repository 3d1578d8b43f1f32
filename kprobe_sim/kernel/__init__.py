"""The simulated kernel, put together; and what lets it do something: activities, the workload of tests, backend specs.

May use everything below.  Start with `simulated`: `SimulatedKernel`.
"""
