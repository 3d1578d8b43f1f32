"""Takes a seed and a kernel's symbols; gives random operations, valid ones and near misses, by part of the tracefs.

Start with `cases`, which combines the others into cases.
"""
