"""Traces of many kernels, each with its truth; any parser is tested with them, and texts are sought that break it.

    from kprobe_corpus.traces import entries
    from kprobe_corpus.parsers import answer

README.md beside this file shows the rooms.
"""
