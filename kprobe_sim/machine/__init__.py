"""The simulated machine underneath the tracing: its clock, tasks, memory and files.

May use `files` and what is below.  Start with `simulated`: `SimulatedMachine` is what all that is above is handed.
"""
