"""trace.dat files of trace-cmd, versions 6 and 7: their contents and their records.

Uses `kprobe_text.pages` for the pages.  Start with `file`.
"""
