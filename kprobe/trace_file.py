"""The file `trace`: its header and the rest."""

from __future__ import annotations


def split_header(data: bytes) -> tuple[bytes, bytes]:
    """Split the text of a `trace` file into its header lines ("#") and the rest."""
    end = 0
    while data.startswith(b"#", end):
        newline = data.find(b"\n", end)
        end = len(data) if newline < 0 else newline + 1
    return data[:end], data[end:]
