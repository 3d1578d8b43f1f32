"""Calls of functions on the simulated machine -> a record for each probe that they hit.

Start with `hits`; `sites` knows which probes a function has, `call` lays out registers and memory.
"""
