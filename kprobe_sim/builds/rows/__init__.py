"""Rows of the table of gates that have a place of their own: what a row is, and those of kernels before 5.10.

Uses the named tuples only.  `gate_rows` puts the table together.
"""
