"""The verbs of `kprobe-vm` that need more than a machine: a shell, test runs, the list, missing commands explained.

Uses everything below; only `kprobe_vm.cli` imports it.  Start with `kprobe_vm.cli`.
"""
