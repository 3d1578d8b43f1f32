"""The simulator as a backend of the tracer, which `--tracefs sim:...` opens."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable

from kprobe_sim.builds import profile
from kprobe_sim.kernel.activity import Activity, load
from kprobe_sim.kernel.simulated import SimulatedKernel
from kprobe_sim.probes.fprobes import STUB
from kprobe_sim.releases import SUFFIX
from kprobe_sim.standard_files import say
from kprobe_sim.tree.files.inprocess import SimTracefs


class SimBackend(SimTracefs[SimulatedKernel]):
    """The tracefs of a simulated kernel that can be set to work, by an activity of that name.

    `told` gets a line about each call that fails while it works.  Raises ValueError for what the kernel hasn't.
    """

    def __init__(
        self, kernel: SimulatedKernel, activity: Activity, name: str, told: Callable[[str], None] | None = None
    ) -> None:
        super().__init__(kernel)
        self._told = told
        self._activity = activity
        self._name = name
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        activity.prepare(kernel)
        activity.check(kernel)

    def has_function(self, name: str) -> bool:
        """Return whether available_filter_functions has a function of that name."""
        with self.kernel.condition:
            return bool(self.kernel.machine.functions().numbers(name))

    def never_calls(self, function: str) -> str:
        """Say that the machine's work never calls a function; "" if it does."""
        if any(step.name == function for step in self._activity.on(self.kernel) if not step.is_event):
            return ""
        return f"the activity `{self._name}` never calls {function}"

    def never_fires(self, event: str) -> str:
        """Say that the machine's work never hits a tracepoint (sched_switch) or fires an event (sched.sched_switch).

        It says "" if it does, if there is none, and of other events.
        """
        system, _, name = event.rpartition(".")
        if not system:  # a tracepoint probe stands on its stub
            if not self.kernel.machine.symbols.lookup(f"{STUB}{name}"):
                return ""
            stub = self.never_calls(f"{STUB}{name}")
            return stub and f"{stub}, on which a t: probe stands: static events don't hit it on the simulator"
        fired = {one for step in self._activity.on(self.kernel) for one in step.events}
        if not self.kernel.statics.has(system, name) or f"{system}/{name}" in fired:
            return ""
        return f"the activity `{self._name}` never fires {event}"

    def never_hits(self) -> str:
        """Say why no probe of this machine can be enabled; "" if they can."""
        size = self.kernel.machine.gates.word_size
        return "" if size == 8 else f"what a processor of {8 * size} bits makes of a hit isn't simulated (ENOSYS)"

    def play(self) -> None:
        """Let the machine work, in real time, until `close`."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._activity.play_live,
                args=(self.kernel, self._stop, self._told),
                name="activity",
                daemon=True,
            )
            self._thread.start()

    def close(self) -> None:
        """Stop the machine's work."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None


def open_sim(argument: str, clock: Callable[[], int] = time.monotonic_ns) -> SimBackend:
    """Open a simulated tracefs: "KERNEL[,activity=NAME-OR-FILE][,cpus=N]"; all of it may be left out.

    KERNEL is a series, a release, or the path of a profile, which may have commas but not what looks like an option.
    There are as many CPUs as the activity uses, if the
    profile has fewer.  The clock is this machine's unless one is given.

    Raises ValueError for a kernel, activity or option that there isn't.
    """
    kernel, work, name, cpus = _read(argument)
    simulated = SimulatedKernel(kernel, cpus=cpus, clock=clock)
    return SimBackend(simulated, work, name, _say)


def _say(failure: str) -> None:
    """Print what Python would print of a thread's error, in one line."""
    say(f"kprobe-sim: {failure}")


def check(argument: str) -> None:
    """Raise the ValueError that `open_sim` would."""
    kernel, work, *_ = _read(argument)
    if work.name:
        open_sim(argument)
    profile.load(kernel)


def _read(argument: str) -> tuple[str, Activity, str, int | None]:
    """Return the kernel, its work, what that is called, and the number of its CPUs, None if that is the profile's."""
    is_path = "/" in argument.partition(",")[0] or SUFFIX in argument
    kernel, *options = re.split(r",(?=[^,/]*=)" if is_path else ",", argument)
    cpus: int | None = None
    activity = "opens"
    for option in options:
        name, _, value = option.partition("=")
        if name == "activity" and value:
            activity = value
        elif name == "cpus" and re.fullmatch("0*[1-9][0-9]{0,9}", value):
            cpus = int(value)
        else:
            raise ValueError(f"sim: option {option!r}: there are activity=NAME-OR-FILE and cpus=N")
    work = load(activity)
    needed = max(step.options["cpu"] for step in work.steps) + 1
    if cpus is not None and cpus < needed:
        raise ValueError(f"sim: activity {activity!r} uses {needed} CPUs: give cpus={needed}, or leave cpus out")
    return kernel, work, activity, cpus or (needed if needed > 1 else None)
