"""Traces of many kernels, each with its truth: tests for any parser, and a search for texts that break it.

    from kprobe_corpus.traces import entries
    from kprobe_corpus.parsers import answer

README.md beside this file shows the rooms.
"""
