"""Runs random operations on a simulator and a kernel; gives their differences, shrunk and written as tests.

Start with `campaign`, then `shards`, a campaign cut into pieces of work; `diff` is the verb.
"""
