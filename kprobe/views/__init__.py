"""Views of a trace's records as they arrive: JSON and CSV, figures, and the live view of `kprobe top`.

Start with `records`, which reads them; `lines`, `figures` and `top` show them.
"""
