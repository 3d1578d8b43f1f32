"""Real Linux kernels in QEMU, started and driven from Python."""

from kprobe_vm.errors import MachineDied, MachineError, NotReady
from kprobe_vm.machine import Machine

__all__ = ["Machine", "MachineDied", "MachineError", "NotReady"]
