"""Profiles of kernels, RELEASE.kprofile, which kprobe-sim finds by the directory of this package."""
