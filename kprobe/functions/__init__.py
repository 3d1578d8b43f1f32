"""Dynamic events and the functions that can be probed: the verbs `kprobe list`, `kprobe functions` and `kprobe args`.

Uses a tracefs, and `kprobe.undo` for the owners of events.  Start with `event_table`, then `events`.
"""
