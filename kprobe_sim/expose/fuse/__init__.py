"""Requests of a FUSE mount -> the replies of a simulated tracefs; with it, mounting and `kprobe-sim mount`.

Start with `server`; `wire` has the requests and replies as bytes.
"""
