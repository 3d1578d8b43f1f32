"""The text of trace and trace_pipe: header, columns, and the body of each kind of entry.

May use `probes` and what is below.  Start with `render`.
"""
