"""A scenario (a machine's actions, as TOML) -> the text that each kernel prints for it, and the truth about that.

Start with `rendering`; a scenario's language is in `scenario` and `steps`.
"""
