"""Traces with what they say, NAME.tar.xz, which kprobe-sim finds by the directory of this package."""
