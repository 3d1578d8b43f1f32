"""Profiles of kernels before 5.10, RELEASE.kprofile, which kprobe-sim finds by the directory of this package."""
