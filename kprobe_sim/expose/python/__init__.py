"""Calls of this process's Python code (open, os, select ...) -> the simulated files.

Start with `patches`: `patched()`, alone or with pyfakefs.
"""
