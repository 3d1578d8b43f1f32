"""A command line typed so far comes in, and its continuations go out, for bash, zsh and fish.

argcomplete (the extra `[completion]`) talks to the shells.  Start with `answer`.
"""
