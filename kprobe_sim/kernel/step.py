"""A step of an activity: one call that a simulated machine makes, or a static event that it fires."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kprobe_sim.kernel.simulated import SimulatedKernel
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.probes.hits.call import Call


class Step(NamedTuple):
    """One call of an activity: the pause before it in seconds, and the arguments of `SimulatedKernel.call`.

    `is_event`: it is a static event, and the arguments are those of `SimulatedKernel.emit`.  `system_call`: the name
    and arguments of the system call that makes it; "" for none.  `position` is where it stands in the file: "call 3".
    """

    after: float
    name: str
    options: Mapping[str, Any]
    is_event: bool = False
    system_call: tuple[str, tuple[int | str | bytes, ...]] = ("", ())
    position: str = ""

    @property
    def events(self) -> tuple[str, ...]:
        """The static events that the step fires."""
        if self.is_event:
            return (self.name,)
        name = self.system_call[0]
        ends = ("enter", "exit")[: 1 + (self.options["returns"] is not None)] if name else ()
        return tuple(event for end in ends for event in (f"raw_syscalls/sys_{end}", f"syscalls/sys_{end}_{name}"))

    def take(self, kernel: SimulatedKernel, options: Mapping[str, Any]) -> None:
        """Make the call, or fire the event."""
        if self.is_event:
            if self._is_enabled(kernel):
                kernel.emit(self.name, **options)
        elif self.system_call[0] and self._is_enabled(kernel):
            name, args = self.system_call
            task, returns, cpu = (options[key] for key in ("task", "returns", "cpu"))
            with kernel.system_call(name, task=task, args=args, returns=returns, cpu=cpu):
                kernel.call(self.name, **options)
        else:
            kernel.call(self.name, **options)

    def check(self, kernel: SimulatedKernel) -> None:
        """Raise ValueError if the kernel lacks the function, the caller, the event or one of its fields."""
        if self.is_event:
            kernel.statics.check(self.name, self.options["fields"])
            return
        options = dict(self.options)
        kernel.hits.check(Call(self.name, **options))

    def _is_enabled(self, kernel: SimulatedKernel) -> bool:
        """Return False if no instance has its static events enabled: importing their emitter is what costs most."""
        events = [kernel.events.static.find(*event.split("/", 1)) for event in self.events]
        return any(self.is_event if event is None else kernel.instances.enabled(event) for event in events)
