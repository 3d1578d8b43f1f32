"""Simulators held to kernels: the campaign by operations at random, the matrix by a fixed table of features.

Uses `generators`, `sides`, `scheduling` and all below them.  Start with `campaign` or `matrix`; `diff` is the verb.
"""
