"""The kernel's parsing of what is written to its files (numbers, words, lists of CPUs, patterns), and its refusals.

May use `builds`.  Start with `kstrto` and `refusal`.
"""
