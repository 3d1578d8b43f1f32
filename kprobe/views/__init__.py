"""A trace comes in, and bytes for the terminal go out: its text, JSON, CSV, figures, or the screen of `kprobe top`.

Start with `views`; `records` reads a trace, and `lines`, `figures` and `top` show it.
"""
