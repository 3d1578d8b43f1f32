"""A profile as one file to mail or commit: directories and files come in, checked and unpacked directories come out.

Imported only for profiles that aren't the package's own.  Start with `file`; `envelope` describes the file's format.
"""
