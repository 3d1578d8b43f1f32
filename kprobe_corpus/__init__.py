"""Traces of many kernels, each with its truth, and what is done with them: any parser tested, any parser broken.

    from kprobe_corpus.traces import entries
    from kprobe_corpus.parsers import answer

`kprobe corpus`, `kprobe test-parser` and its `--break`.  Simulator and guests are reached by entry points only.
README.md beside this file shows the rooms.
"""
