"""Histograms: hist triggers are read, count, act and are shown.

May use `static_events` and what is below.  Start with `maker`, which reads a trigger, and `data`, which counts.
"""
