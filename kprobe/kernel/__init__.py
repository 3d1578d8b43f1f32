"""A tracefs comes in, and what the traced kernel says goes out: functions, prototypes, probes, refusals.

Reads and changes nothing.  Start with `listing`, then `errorlog`.
"""
