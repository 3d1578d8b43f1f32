"""Real Linux kernels in QEMU, started and driven from Python."""

from typing import TYPE_CHECKING

from kprobe_vm.errors import MachineDied, MachineError, NotReady

if TYPE_CHECKING:
    from kprobe_vm.machine.machine import Machine

    __version__: str

__all__ = ["Machine", "MachineDied", "MachineError", "NotReady"]


if not TYPE_CHECKING:  # type checkers would learn of it that every name is there

    def __getattr__(name: str) -> object:
        """Import `Machine` when it is first asked for: it takes the extra [vm], and kernels can be fetched without."""
        if name == "Machine":
            from kprobe_vm.machine.machine import Machine

            return Machine
        if name == "__version__":
            from importlib.metadata import PackageNotFoundError, version  # slow to import

            try:
                return version("kprobe-sim")
            except PackageNotFoundError:  # a checkout that isn't installed
                return "0+unknown"
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
