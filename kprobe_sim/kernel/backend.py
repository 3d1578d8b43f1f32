"""The simulator as a backend of the tracer: `--tracefs sim:...` opens it."""

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
    """The tracefs of a simulated machine that an activity, called `name`, sets to work.

    It adds the optional capabilities `play`, `close`, `has_function`, `never_calls`, `never_fires` and `never_hits`.
    `report` gets a line about each call of the activity that fails.  Raises ValueError for what the kernel lacks.
    """

    def __init__(
        self, kernel: SimulatedKernel, activity: Activity, name: str, report: Callable[[str], None] | None = None
    ) -> None:
        super().__init__(kernel)
        self._report = report
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
        """Say that the activity never calls a function; "" if it does."""
        if any(step.name == function for step in self._activity.on(self.kernel) if not step.is_event):
            return ""
        return f"the activity `{self._name}` never calls {function}"

    def never_fires(self, event: str) -> str:
        """Say that the activity never hits a tracepoint (sched_switch) or fires a static event (sched.sched_switch).

        Return "" if it does, if the kernel has no such tracepoint or event, and for dynamic events.
        """
        system, _, name = event.rpartition(".")
        if not system:  # a tracepoint probe stands on its stub
            if not self.kernel.machine.symbols.lookup(f"{STUB}{name}"):
                return ""
            stub = self.never_calls(f"{STUB}{name}")
            return stub and f"{stub}, on which a t: probe stands: static events don't hit it on the simulator"
        fired = {name for step in self._activity.on(self.kernel) for name in step.events}
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
                args=(self.kernel, self._stop, self._report),
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

    KERNEL is a series, a release, or the path of a profile, which may contain commas but nothing like an option.  The
    machine has at least as many CPUs as the activity uses.  `clock` gives its time in ns: by default, this machine's.

    Raises ValueError for a kernel, activity or option that doesn't exist.
    """
    kernel, activity, name, cpus = _read(argument)
    simulated = SimulatedKernel(kernel, cpus=cpus, clock=clock)
    return SimBackend(simulated, activity, name, _say)


def _say(failure: str) -> None:
    """Report an error of the activity's thread in one line."""
    say(f"kprobe-sim: {failure}")


def check(argument: str) -> None:
    """Raise the ValueError that `open_sim` would."""
    kernel, activity, *_ = _read(argument)
    if activity.name:
        open_sim(argument)
    profile.load(kernel)


def _read(argument: str) -> tuple[str, Activity, str, int | None]:
    """Return the kernel, its activity, the name of that, and the number of CPUs; None means the profile's."""
    is_path = "/" in argument.partition(",")[0] or SUFFIX in argument
    kernel, *options = re.split(r",(?=[^,/]*=)" if is_path else ",", argument)
    cpus: int | None = None
    name = "opens"
    for option in options:
        key, _, value = option.partition("=")
        if key == "activity" and value:
            name = value
        elif key == "cpus" and re.fullmatch("0*[1-9][0-9]{0,9}", value):
            cpus = int(value)
        else:
            raise ValueError(f"sim: option {option!r}: there are activity=NAME-OR-FILE and cpus=N")
    activity = load(name)
    needed = max(step.options["cpu"] for step in activity.steps) + 1
    if cpus is not None and cpus < needed:
        raise ValueError(f"sim: activity {name!r} uses {needed} CPUs: give cpus={needed}, or leave cpus out")
    return kernel, activity, name, cpus or (needed if needed > 1 else None)
