"""The words that users write: definitions, filters, options and verbs.

Uses nothing but errors.  Start with `definition`; `option_table` has the command line.
"""
