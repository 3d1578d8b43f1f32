"""What the authors of five documents on kprobe events typed -> what they saw, shown again by `kprobe-sim replay`.

The data is in seeds/DOCUMENT/LISTING; an entry point provides the command `kprobe`.  Start with `listing`.
"""
