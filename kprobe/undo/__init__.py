"""Every change to a tracefs goes in, and its undo comes out, for this session or, after `kill -9`, for the next one.

Start with `undo`, then `owners` and `instance`; `cleaning` removes what dead owners left behind.
"""
