"""Results of tests come in, and reports go out: tables, JSON, JUnit, annotations, and what changed since a baseline.

Start with `forms`, then `baseline`.
"""
