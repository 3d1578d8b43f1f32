"""Lines with a form of their own -> records: of function_graph, of system calls, and of 2009, without names.

Uses nothing but the rest of `kprobe.text`.  Start with `graph`.
"""
