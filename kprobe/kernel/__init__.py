"""A tracefs -> what the traced kernel says: its functions and prototypes, the probes it has and takes, its refusals.

Reads a tracefs and changes nothing.  Start with `listing`, then `errorlog`.
"""
