"""The events of a trace: added, refused, filtered, enabled, counted by the kernel.

Start with `registration`, then `traced_events`.
"""
