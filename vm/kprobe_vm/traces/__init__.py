"""Trace text of a guest as entries of the corpus: one known activity, under all options and clocks, with its truth.

The truth is what the activity did and what the raw pages of the ring buffer hold, decoded here; never the text.
Uses `guest`, `machine` and all below them.  Start with `recording`; `check` compares with a corpus that is there.
"""
