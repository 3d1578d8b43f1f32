"""A definition as users write it comes in, and the probe that it means goes out, with its line for the kernel.

Start with `definition`, then `probe`; `foreign` reads the spellings of other tools.
"""
