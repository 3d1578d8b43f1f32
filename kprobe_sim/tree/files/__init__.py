"""Nodes and open files, on which every way of seeing the tracefs is built, and access from Python in the same process.

May use `parsing` and what is below.  Start with `node`: a node neither blocks nor keeps a position.
"""
