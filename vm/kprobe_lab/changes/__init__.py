"""Takes kernels and operations; gives the differences between the kernels' answers.

Start with `language`, which reads an operation, and `response`, a kernel's answer to it; `bisect`, one operation tried
on all kernels, and `compare`, two kernels compared, are the verbs.
"""
