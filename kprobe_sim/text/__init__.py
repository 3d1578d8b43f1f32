"""Entries of a ring buffer, and the trace options -> the text of trace and trace_pipe: header, columns and bodies.

Start with `render`.
"""
