"""The machine of a listing: its kernel, and a tracefs whose readers let the machine run."""

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

    Whoever reads trace_pipe sees each call of the activity as it is made, at the pace of the listing's times unless
    `is_fast`; after the last `end` is called, once.  `early` calls are made before `trace` is read first.

    `is_interrupted` is set when SIGINT comes while it waits for the next call: it goes to whoever handles that, and no
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
        """Return whether available_filter_functions has a function of that name."""
        with self.kernel.condition:
            return bool(self.kernel.machine.functions().numbers(name))

    def read(self, path: str) -> bytes:
        """Return the whole text of a file."""
        if path.rpartition("/")[2] == "trace" and self.kernel.instances.enabled_events():
            for _ in range(self._early):
                self.go_on()
            self._early = 0
        return super().read(path)

    def stream(self, path: str) -> SimStream:
        """Open a trace_pipe."""
        return _Stream(self, super().stream(path))

    def go_on(self) -> bool:
        """Make the next call; False if there is none left, or SIGINT came before it."""
        if self.is_interrupted or not self._steps:
            return False
        step = self._steps.pop(0)
        self._wait(step)
        if self.is_interrupted:
            return False
        step.take(self.kernel, step.options)
        return True

    def end(self) -> None:
        """Say, once, that all calls are made."""
        if self._end is not None and not self.is_interrupted:
            self._end()
            self._end = None

    def _wait(self, step: Step) -> None:
        at = step.options["at"]
        if self._last is not None and not self._is_fast:
            self.is_interrupted = not pause(max(0, at - self._last) / _NS)
        self._last = at


class _Stream(SimStream):
    """A trace_pipe whose reader lets the machine go on."""

    def __init__(self, tracefs: ListingTracefs, stream: SimStream) -> None:
        self._tracefs = tracefs
        self._stream = stream

    def read(self, timeout: float | None = None) -> bytes:
        """Return the next data; b"" at the end or after close; TimeoutError after `timeout` seconds without data."""
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
    """Return the kernel of a listing: the recorded one, but for what the author's had otherwise.

    Raises ValueError where there is no profile of it.
    """
    build = profile.load(listing.kernel)
    if listing.facts or listing.answers:
        build = copy.copy(build)  # what is made of a build once is made for this one anew
        build.__dict__.update(listing.facts)
        build.__dict__["answers"] = MappingProxyType({**build.answers, **listing.answers})
    return SimulatedKernel(build, cpus=listing.cpus)


def pause(seconds: float) -> bool:
    """Wait; return False at once if SIGINT comes, after it was handled by whoever handles it.

    Otherwise a handler that only notes the signal would have the wait go on to its end.
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
