"""The words of a command line -> what is asked for: options, verbs, definitions and the filter.

Start with `table`, from which usage, help, completion and man page are made; then `command_line`.
"""
