"""`kprobe-sim run`: a command in namespaces of its own on the mount, how it ends, and what `--follow` sees of it.

May use `expose.fuse` and what is below.  Start with `run`.
"""
