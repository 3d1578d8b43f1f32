"""Records as bytes: their fields, and the ring buffer that they are put into.

May use `machine` and what is below.  Start with `field` and `ring`.
"""
