"""The two sides of a comparison, a simulator and a kernel: what is done to either, what it answers, how it is put back.

Uses `guest` and all below it, but only for the side that is a kernel.  Start with `operation`, then `side`.
"""
