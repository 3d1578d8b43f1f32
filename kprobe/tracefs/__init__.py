"""A backend spec ("sim:6.1") comes in, and a tracefs goes out; here is what a tracefs is, and what it may offer.

Start with `tracefs` and `capabilities`, then `backends`.
"""
