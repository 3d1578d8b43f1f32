"""Python code of the same process sees the simulated files at their paths: `patched()`, alone or with pyfakefs.

May use `kernel` and what is below.  Start with `patches`.
"""
