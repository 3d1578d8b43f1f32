"""Fields and values -> records as bytes, kept in the pages of a ring buffer until somebody reads them.

Start with `field` and `ring`.
"""
