"""Debian packages: found in an archive, verified, fetched and unpacked; and the lock, which pins them.

Uses `host`.  Start with `packages`, the shape of an archive; `apt` and `webarchive` are the two that there are.
"""
