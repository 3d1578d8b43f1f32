"""Names and patterns come in, and functions go out, with how to probe each: `kprobe functions`, `kprobe args`.

Start with `probeable`, then `definitions`.
"""
