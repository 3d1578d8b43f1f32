"""Lines with a form of their own -> records: of tracers, of system calls, and of 2009, without names.

Uses nothing but the rest of `kprobe_text.text`.  Start with `graph`.
"""
