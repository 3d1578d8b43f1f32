"""`kprobe parse`: trace text from files or a pipe, as text, JSON lines or CSV.

Uses `kprobe_text.text`.  Start with `command`.
"""
