"""A kernel build as it was recorded: facts, files, symbols, C types, and the differences between versions.

Uses nothing but the standard library.  Start with `profile`; `gates` is the only place where a version is compared.
"""
