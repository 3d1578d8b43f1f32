"""Differences between kernels, shown by their answers: two kernels compared, and one operation tried on all.

Uses `sides` and all below it.  Start with `language`, which reads an operation, and `response`, which is what a kernel
answers to it; `bisect` and `compare` are the verbs.  Simulated kernels, and the rows of the gate tables, are found
through entry points.
"""
