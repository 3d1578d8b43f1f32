"""Services of the host: a cache that survives kills and damage, scratch directories, programs, KVM, time, progress.

Uses `kprobe_vm.errors`, as everything here does, and the standard library.  Start with `cache`.
"""
