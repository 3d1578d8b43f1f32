"""What the verbs of `kprobe-vm` do beyond a machine: a shell, the test runs, the list, what a command lacks.

Uses everything below; only `kprobe_vm.cli` imports it.  Start with `kprobe_vm.cli`.
"""
