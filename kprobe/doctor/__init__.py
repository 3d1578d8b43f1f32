"""Why can't this machine be traced, or why is a trace silent: `kprobe doctor`, and the word that a silent trace gives.

Reads a tracefs and, where that can be asked, the machine around it; changes nothing.  Start with `examination`.
"""
