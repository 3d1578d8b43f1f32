"""The two sides of a comparison, a simulator and a kernel: the operations on each, its answers, and its restoration.

Uses `guest` and all below it, but only for the side that is a kernel.  Start with `operation`, then `side`.
"""
