"""Why this machine can't be traced, or why a trace is silent: `kprobe doctor`, and the message of a silent trace.

Reads a tracefs and, where possible, the machine around it; changes nothing.  Start with `examination`.
"""
