"""The verb `kprobe parse`: files or a pipe with a trace come in; text, JSON lines, CSV, tables or figures go out.

Uses `kprobe_text.text`.  Start with `command`.
"""
