"""Fetch arguments: `NAME=EXPRESSION:TYPE` becomes code that reads registers and memory at a hit, and writes bytes.

May use `filters` and what is below.  Start with `argument`; `evaluate` runs what it compiles.
"""
