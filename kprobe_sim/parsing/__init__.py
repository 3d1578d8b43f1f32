"""How the kernel reads what is written to its files: numbers, words, lists of CPUs, patterns; and how it refuses.

May use `builds`.  Start with `kstrto` and `refusal`.
"""
