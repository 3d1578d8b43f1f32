"""Simulators compared with kernels: the campaign by random operations, the matrix by a fixed table of features.

Uses `generators`, `sides`, `scheduling` and all below them.  Start with `campaign` or `matrix`; `diff` is the verb.
"""
