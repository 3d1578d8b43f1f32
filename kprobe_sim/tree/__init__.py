"""Paths of the tracefs -> the node of each, and what a read or a write of each file does.

Start with `tree`; `control_files` lists what is simulated.
"""
