"""Guests at work for tests: behind the spec `vm:...`, one after another, put back between tests, with a task to trace.

Uses `machine` and all below it.  Start with `backend`.
"""
