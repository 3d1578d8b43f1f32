"""Fetch arguments: `NAME=EXPRESSION:TYPE` -> code that reads registers and memory at a hit and writes bytes.

Start with `argument`; `evaluate` runs what it compiles.
"""
