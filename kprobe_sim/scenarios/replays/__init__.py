"""What the authors of five documents on kprobe events typed -> what they saw, shown again by `kprobe-sim replay`.

The data is in seeds/DOCUMENT/LISTING; the command `kprobe` comes by its entry point.  Start with `listing`.
"""
