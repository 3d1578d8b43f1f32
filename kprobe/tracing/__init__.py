"""Probes and options come in, and a trace goes out: its records as they arrive, its results, its state.

Start with `tracer`, then `session`.
"""
