"""Takes names of Debian packages; gives verified files, unpacked, as an archive has them and the lock pins them.

Uses `host`.  Start with `packages`, the interface of an archive; `apt` and `webarchive` are the two archives.
"""
