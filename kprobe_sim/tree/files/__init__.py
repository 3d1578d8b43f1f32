"""System calls on a file -> text, effects and errnos; every way of exposing the tracefs is built on these nodes.

Start with `node`: a node neither blocks nor keeps a position.  `inprocess` is access from Python in the same process.
"""
