"""Real Linux kernels in QEMU, started and driven from Python."""

from typing import TYPE_CHECKING

from kprobe_vm.errors import MachineDied, MachineError, NotReady

if TYPE_CHECKING:
    from kprobe_vm.machine import Machine

__all__ = ["Machine", "MachineDied", "MachineError", "NotReady"]


def __getattr__(name: str) -> object:
    """Import `Machine` when it is first asked for: it takes the extra [vm], and kernels can be fetched without."""
    if name == "Machine":
        from kprobe_vm.machine import Machine

        return Machine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
