"""Operations at random, each module about one part of the tracefs: good ones, and near misses of them.

Uses `sides` (operations and symbols).  Start with `cases`, which makes cases of what the others give.
"""
