"""A command -> its exit status, after it has run in namespaces on a simulated machine (`kprobe-sim run`).

Start with `run`; `follow` turns the command's system calls into those of the machine.
"""
