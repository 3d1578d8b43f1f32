"""What every verb of the command needs: output, colours, signals; and the verb `kprobe clean`.

Start with `output`.
"""
