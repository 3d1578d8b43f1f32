"""Random operations, each module about one part of the tracefs: valid ones, and near misses.

Uses `sides` (operations and symbols).  Start with `cases`, which makes cases of what the others give.
"""
