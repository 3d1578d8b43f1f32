"""What is probed, and what can be: the verbs `kprobe list`, `kprobe functions` and `kprobe args`.

Uses a tracefs and what tells owners of events.  Start with `event_table`, then `events`.
"""
