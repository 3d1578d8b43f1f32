"""The images that QEMU boots: a kernel from its package, and the root, an initial RAM disk made here.

Uses `agent` (its source is compiled into the root), `debian` and `host`.  Start with `kernels` and `root`.
"""
