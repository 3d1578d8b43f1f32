"""A trace: its life from the first write to the last undo, its records as they arrive, and its state.

Start with `tracer`, then `session`.
"""
