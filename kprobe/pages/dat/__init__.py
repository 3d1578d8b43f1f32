"""trace.dat files of trace-cmd, versions 6 and 7: what is in them, and their records.

Uses `kprobe.pages` for the pages.  Start with `file`.
"""
