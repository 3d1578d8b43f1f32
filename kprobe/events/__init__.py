"""Probes come in, and their events go out: added to the kernel, filtered, enabled, counted, listed.

Start with `registration`, then `traced_events`; `dynamic` and `command` are `kprobe list`.
"""
