"""Everything that the command's verbs share (output, colours, signals), and the verb `kprobe clean`.

Start with `output`.
"""
