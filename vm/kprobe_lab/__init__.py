"""Kernels compared: a simulator with its kernel, two kernels with each other, one operation on all of them.

The only package that knows both the simulated kernel and the guests.  `kprobe-vm diff`, `matrix`, `compare` and
`bisect` are its verbs.  README.md beside this file shows the rooms.
"""
