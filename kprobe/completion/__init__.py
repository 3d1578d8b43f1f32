"""What a shell offers after TAB: by the table of options, and by what the chosen tracefs has.

The shells' side, and the reading of what is typed, is argcomplete's, in the extra [completion].  Uses everything below.
Start with `answer`.
"""
