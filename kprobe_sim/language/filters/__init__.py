"""Filters: the text of a `filter` file -> a test of records, or a refusal with a caret.

Start with `predicate`.
"""
