"""The machine of a listing: its kernel, and a tracefs whose readers make the machine run."""

from __future__ import annotations

import copy
import os
import signal
import threading
import time
from collections.abc import Callable
from types import MappingProxyType

from kprobe_sim.builds import profile
from kprobe_sim.kernel.simulated import SimulatedKernel
from kprobe_sim.kernel.step import Step
from kprobe_sim.scenarios.replays.listing import Listing
from kprobe_sim.tree.files.inprocess import SimStream, SimTracefs

_NS = 1_000_000_000


class ListingTracefs(SimTracefs[SimulatedKernel]):
    """The tracefs of a listing's machine.

    A reader of trace_pipe sees each call of the activity as it is made, at the pace of the listing's times unless
    `is_fast`; after the last call, `end` is called once.  `early` calls are made before the first read of `trace`.

    `is_interrupted` is set when SIGINT comes during the wait for the next call: the signal goes to its handler, and no
    further call is made.
    """

    def __init__(self, listing: Listing, end: Callable[[], None], *, is_fast: bool) -> None:
        super().__init__(kernel_of(listing))
        listing.activity.prepare(self.kernel)
        self._steps = list(listing.activity.steps)
        self._early = listing.early
        self._end: Callable[[], None] | None = end
        self._is_fast = is_fast
        self._last: int | None = None  # when the last call was, in ns
        self.is_interrupted = False

    def has_function(self, name: str) -> bool:
        """Return whether available_filter_functions lists a function of that name."""
        with self.kernel.condition:
            return bool(self.kernel.machine.functions().numbers(name))

    def read(self, path: str) -> bytes:
        """Return the text of a file."""
        if path.rpartition("/")[2] == "trace" and self.kernel.instances.enabled_events():
            for _ in range(self._early):
                self.go_on()
            self._early = 0
        return super().read(path)

    def stream(self, path: str) -> SimStream:
        """Open a trace_pipe."""
        return _Stream(self, super().stream(path))

    def go_on(self) -> bool:
        """Make the next call; return False if none is left, or SIGINT came first."""
        if self.is_interrupted or not self._steps:
            return False
        step = self._steps.pop(0)
        self._wait(step)
        if self.is_interrupted:
            return False
        step.take(self.kernel, step.options)
        return True

    def end(self) -> None:
        """Call `end`, once, when all calls are made."""
        if self._end is not None and not self.is_interrupted:
            self._end()
            self._end = None

    def _wait(self, step: Step) -> None:
        time_ns = step.options["at"]
        if self._last is not None and not self._is_fast:
            self.is_interrupted = not pause(max(0, time_ns - self._last) / _NS)
        self._last = time_ns


class _Stream(SimStream):
    """A trace_pipe whose reader makes the machine continue."""

    def __init__(self, tracefs: ListingTracefs, stream: SimStream) -> None:
        self._tracefs = tracefs
        self._stream = stream

    def read(self, timeout: float | None = None) -> bytes:
        """Return the next data; b"" at the end or after close.  Raises TimeoutError after `timeout` seconds."""
        while True:
            try:
                return self._stream.read(0)
            except TimeoutError:
                if not self._tracefs.go_on():
                    break
        self._tracefs.end()
        return self._stream.read(timeout)

    def close(self) -> None:
        """End the stream."""
        self._stream.close()


def kernel_of(listing: Listing) -> SimulatedKernel:
    """Return the kernel of a listing: the recorded one, changed where the author's differs.

    Raises ValueError if there is no profile of it.
    """
    build = profile.load(listing.kernel)
    if listing.facts or listing.answers:
        build = copy.copy(build)  # what is computed once for a build is computed for this copy again
        build.__dict__.update(listing.facts)
        build.__dict__["answers"] = MappingProxyType({**build.answers, **listing.answers})
    return SimulatedKernel(build, cpus=listing.cpus)


def pause(seconds: float) -> bool:
    """Wait; if SIGINT comes, let its handler run and return False at once.

    Otherwise the wait would continue to its end under a handler that only notes the signal.
    """
    if threading.current_thread() is not threading.main_thread():
        time.sleep(seconds)
        return True
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        came = signal.sigtimedwait((signal.SIGINT,), seconds) is not None
        if came:
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return not came
