"""The questions to a kernel that is being recorded, which settle the rows of the gate tables.

May use `kernel` and what is below.  Start with `question`, the language, and `ask`, which asks.  A kernel's start reads
none of this.
"""
