"""The bytes of the ring buffer -> typed records: pages of trace_pipe_raw, and trace.dat files.

Uses `kprobe_text.text` for its types of records and for reading format files.  Start with `layout`.
"""
