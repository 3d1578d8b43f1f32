"""Dynamic events of all kinds: lines of kprobe_events and similar files become probes, or refusals with a caret.

May use `events` and what is below.  Start with `registry`; a line is read by `command`, a place by `probe_point`.
"""
