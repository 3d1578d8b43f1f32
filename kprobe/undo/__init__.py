"""What sessions change in a tracefs, whose each change is, and how it is taken back, after `kill -9` too.

Start with `undo`, then `owners` and `instance`; `cleaning` is for what dead owners left.
"""
