"""Dynamic events of all kinds: lines of kprobe_events and its like -> probes, or refusals with a caret.

Start with `registry`; `command` reads a line, `probe_point` finds its address.
"""
