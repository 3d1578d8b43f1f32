"""Takes this machine; gives its profile, as of a guest: surveyed first, restored afterwards.

Uses `recording` and all below it, but neither QEMU nor what the extra `[vm]` brings.  Start with `session`.
"""
