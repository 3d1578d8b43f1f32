"""Takes operations and a backend, simulator or kernel; gives answers that can be compared, and restores the backend.

Start with `operation`, then `side`.
"""
