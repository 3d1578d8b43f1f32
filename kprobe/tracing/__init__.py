"""A trace: its life from the first write to the last undo, its records as they come, and how it stands.

Start with `tracer`, then `session`.
"""
