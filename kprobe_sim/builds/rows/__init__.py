"""Rows of the table of gates in modules of their own: what a row is, and the rows for kernels before 5.10.

Uses the named tuples only.  `gate_rows` puts the table together.
"""
