"""The bytes of the ring buffer -> typed records: pages of trace_pipe_raw, and trace.dat files.

Uses `kprobe.text` for the records, which are the same, and for reading format files.  Start with `layout`.
"""
