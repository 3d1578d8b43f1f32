"""Statements and kernels come in, and each kernel's verdict on each statement goes out, with a text that all accept.

Start with `checking`; `asked_kernel` asks one kernel, `meanings` compares the answers, `suggestions` tries rewrites.
"""
