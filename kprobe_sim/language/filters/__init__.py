"""Filters: the text of a `filter` file becomes a test of records, or a refusal with a caret.

May use `records` and what is below.  Start with `predicate`.
"""
