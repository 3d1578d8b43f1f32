"""The interface of a tracefs, this machine's own tracefs, and how a backend spec ("sim:6.1") is opened.

Start with `tracefs`, then `backends`.
"""
