"""Guests for tests: behind the spec `vm:...`, one after another, restored between tests, with a task to trace.

Uses `machine` and all below it.  Start with `backend`.
"""
