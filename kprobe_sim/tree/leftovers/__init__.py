"""The state of a tracefs -> what a program or a test left behind in it, and the writes that undo that.

Start with `state`, then `hygiene`.
"""
