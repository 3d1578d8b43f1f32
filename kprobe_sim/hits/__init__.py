"""Calls of the simulated machine meet probes: registers and memory are laid out, and each hit becomes a record.

May use `hist` and what is below.  Start with `hits`.
"""
