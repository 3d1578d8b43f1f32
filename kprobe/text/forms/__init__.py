"""Lines with a form of their own -> records: of function_graph and other tracers, of system calls, and of 2009.

Uses nothing but the rest of `kprobe.text`.  Start with `graph`.
"""
