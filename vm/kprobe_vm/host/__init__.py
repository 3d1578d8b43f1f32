"""Services of the host for all other rooms: a cache that survives kills and damage, programs, KVM, time, progress.

Uses `kprobe_vm.errors`, as everything here does, and the standard library.  Start with `cache`.
"""
