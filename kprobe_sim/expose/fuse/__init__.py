"""The tracefs mounted by FUSE: the server, the mount itself, and `kprobe-sim mount`.

May use `expose.python` and what is below.  Start with `server`; `wire` has the kernel's requests as bytes.
"""
