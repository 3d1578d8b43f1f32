"""Scenarios: a machine's actions in one TOML file, as the text that each kernel prints, and the truth about it.

May use `kernel` and what is below.  Start with `rendering`; a scenario's language is in `scenario` and `steps`.
"""
