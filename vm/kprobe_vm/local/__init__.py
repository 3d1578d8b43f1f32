"""The machine that one sits at, recorded like a guest: looked at first, put back afterwards.

Uses `recording` and all below it, but neither QEMU nor what the extra `[vm]` brings.  Start with `session`.
"""
