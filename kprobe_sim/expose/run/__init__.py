"""`kprobe-sim run`: a command in its own namespaces on the mount, its end, and what `--follow` sees of it.

May use `expose.fuse` and what is below.  Start with `run`.
"""
