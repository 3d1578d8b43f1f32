"""A report comes in, and text goes out: for a terminal, Markdown, JSON, SARIF, JUnit, or GitHub's annotations.

Start with `formats`.
"""
