"""A profile as one file that can be mailed and committed: packed, checked, unpacked once, or fetched from elsewhere.

Imported only where a profile isn't the package's own.  Start with `file`; `envelope` has what the file looks like.
"""
