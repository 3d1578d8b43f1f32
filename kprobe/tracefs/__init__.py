"""What a tracefs is, the machine's own, and how a backend spec ("sim:6.1") becomes one.

Start with `tracefs`, then `backends`.
"""
