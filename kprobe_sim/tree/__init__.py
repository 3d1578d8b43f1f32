"""The tracefs tree: the node of each path, and what a read or a write of each file does.

May use `hits` and what is below.  Start with `tree`; `control_files` lists what is simulated.
"""
