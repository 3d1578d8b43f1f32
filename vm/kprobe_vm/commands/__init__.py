"""The larger verbs of `kprobe-vm` take options and a machine, and give an exit status: shell, test, list, copies.

Uses everything below; only `kprobe_vm.cli` imports it.  Start with `kprobe_vm.cli`.
"""
