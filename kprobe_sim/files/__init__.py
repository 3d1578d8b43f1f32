"""Nodes and open files, which every way of seeing the tracefs stands on, and the way for Python in the same process.

May use `parsing` and what is below.  Start with `node`: a node neither blocks nor keeps a position.
"""
