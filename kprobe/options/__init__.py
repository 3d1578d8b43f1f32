"""The words of a command line come in, and a request goes out: options, verb, definitions, filter.

Start with `table`, from which usage, help, completion and man page are made; then `command_line`.
"""
