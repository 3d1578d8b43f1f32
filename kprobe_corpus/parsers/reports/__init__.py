"""What `kprobe test-parser` prints of its results, and what of them is known already.

Uses the rest of `kprobe_corpus.parsers` but its command.  Start with `forms`, then `baseline`.
"""
