"""Any parser of trace text, tested: its records held to what is known to be true, and texts that fool it searched.

    kprobe test-parser -- CMD …        CMD reads a text on its standard input and answers in JSON Lines
    from kprobe.readers import answer  # makes such a CMD of a Python function

Uses `kprobe.corpus` for the texts; `breaking` imports hypothesis when it searches.  Start with `comparison`, then
`running` and `report`; docs/readers.md is for users, docs/reader-schema.md the language of answers.
"""

from kprobe.readers.adapter import answer

__all__ = ["answer"]
