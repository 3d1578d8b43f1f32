"""Takes a spec `vm:...`; gives guests for tests, one after another, restored between tests, and a task to trace.

Uses `machine` and all below it.  Start with `backend`.
"""
