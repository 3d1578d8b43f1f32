"""What differs between kernels, as their answers tell: two compared, and one operation put to all of them.

Uses `sides` and all below it.  Start with `language`, which reads an operation, and `reply`, which is what a kernel
answers to it.  Simulated kernels are found through the entry points kprobe.kernels.
"""
