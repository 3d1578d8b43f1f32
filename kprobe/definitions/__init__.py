"""The text of a definition, as users write it -> the probe that it means, and its line for the kernel.

Uses nothing but errors.  Start with `definition`, then `probe`.
"""
