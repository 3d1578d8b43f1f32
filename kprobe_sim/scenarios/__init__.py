"""Scenarios: one TOML file of what a machine does, as the text that each kernel makes of it, and what is true of it.

May use `kernel` and what is below.  Start with `rendering`; a scenario's language is in `scenario` and `steps`.
"""
