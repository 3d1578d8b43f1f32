"""A scenario (a machine's actions, as TOML) -> the text that each kernel prints for it, and the truth about the text.

Start with `rendering`; `scenario` and `steps` define the language of scenarios.
"""
