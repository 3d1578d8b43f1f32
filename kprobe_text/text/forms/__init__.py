"""Lines with their own form (tracers, system calls, kernels of 2009) -> records.

Start with `graph`.
"""
