"""What a kernel answers: its listings, symbols, kinds of probes, error log and refusals.

Reads a tracefs and changes nothing.  Start with `listing`, then `errorlog`.
"""
