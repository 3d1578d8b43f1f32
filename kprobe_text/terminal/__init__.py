"""What every command of the project shares: the words after a verb come in; output, messages and colours go out.

Start with `output`; `verb` says what a verb is.
"""
