"""A file or a text comes in, in any of the forms that are read, and its statements go out, each with its position.

Start with `reading`, which chooses the reader of a form: `lists`, `documents` (Markdown), `shell` or `programs`.
"""
