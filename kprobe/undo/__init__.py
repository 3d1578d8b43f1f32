"""The changes that sessions make in a tracefs, who owns each, and how it is undone, even after `kill -9`.

Start with `undo`, then `owners` and `instance`; `cleaning` removes what dead owners left behind.
"""
