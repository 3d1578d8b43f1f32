"""Calls on the simulated machine that hit probes: registers and memory are laid out, and each hit becomes a record.

May use `hist` and what is below.  Start with `hits`.
"""
