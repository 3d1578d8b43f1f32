"""Bytes written to a file -> what every parser of the kernel is made of: numbers, words, CPU lists, globs, refusals.

Start with `kstrto` and `refusal`.
"""
