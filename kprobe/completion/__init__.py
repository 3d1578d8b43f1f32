"""Completion in a shell, from the table of options and the contents of the chosen tracefs.

argcomplete (extra [completion]) talks to the shells and reads what is typed.  Uses everything below.
Start with `answer`.
"""
