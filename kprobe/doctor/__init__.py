"""A tracefs or a silent trace comes in, and findings go out: what stops tracing, and what helps.

`kprobe doctor`.  Changes nothing.  Start with `examination`; `silence` explains a silent trace.
"""
