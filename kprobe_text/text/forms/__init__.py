"""Lines with a form of their own (tracers, system calls, kernels of 2009) -> records.

Start with `graph`.
"""
