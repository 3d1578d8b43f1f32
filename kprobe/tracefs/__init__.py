"""A backend spec ("sim:6.1") comes in, and a tracefs goes out: its interface and its optional capabilities.

Start with `tracefs` and `capabilities`, then `backends`.
"""
