"""What a kernel is asked when it is recorded: the questions that settle the rows of the gate tables.

May use `kernel` and what is below.  Start with `question`, the language, and `ask`, which asks.  A kernel's start reads
none of this.
"""
