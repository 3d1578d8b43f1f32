"""The backend of one spec: opened late, closed early, and reported once if it isn't available."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from kprobe_sim.kernel.backend import open_sim
from kprobe_sim.machine.clock import VirtualClock
from kprobe_sim.tree.files.capabilities import Capabilities

from .pristine import Pristine


def _open_still(spec: str) -> Any:
    return open_sim(spec.partition(":")[2], clock=VirtualClock())


class Unusable(Exception):
    """Tests can't run on the backend that was asked for."""


class Backend:
    """What one `--tracefs` spec names.

    Each test gets a new simulator.  A tracefs that can be renewed (a guest's) is renewed for each test module, and for
    each test that asks for its own.  Any other stays, and is restored after each test.  `note` is called with the name
    of a test that left what can't be undone, and with what that is.

    `module` is the test module whose end calls `end_module`.
    """

    def __init__(
        self, spec: str, open_tracefs: Callable[[str], Any], note: Callable[[str, str], None] = lambda test, left: None
    ) -> None:
        self.spec = spec
        self.module: object = None
        self._open_tracefs = open_tracefs
        self._note = note
        self._user = ""  # the test that had the tracefs last
        self.is_simulated = spec.partition(":")[0] == "sim"
        self._opened: Any = None
        self._is_open = False
        self._was_exclusive = False  # the last test had its own machine
        self._pristine: Pristine | None = None
        self._failure = ""
        self.absent: dict[str, str] | None = None  # what this kernel lacks, filled in by unsupported.py

    def fresh(self, test: str = "", *, exclusive: bool, still: bool = False) -> Any:
        """Return a pristine tracefs for a test, which `note` names if it leaves what can't be undone.

        With `exclusive` no other test uses the same machine, if it can be renewed.  With `still` a simulated machine's
        time moves only when it is read.
        """
        if self.is_simulated:
            return self._open(_open_still if still else self._open_tracefs)
        if self._pristine is not None and not self._must_renew(exclusive) and self._undone():
            self._user = test
            return self._pristine
        self._user = test
        self._was_exclusive = exclusive
        self._pristine = None
        opened = self._open(self._open_tracefs) if Capabilities(self._opened).renew is None else self._renew()
        pristine = Pristine(opened)
        if pristine.is_in_use():
            raise Unusable(f"--tracefs {self.spec}: somebody is tracing there, and the tests would end that trace")
        self._pristine = pristine
        return pristine

    def end_module(self) -> None:
        """Close or restore what the next test module must find in its first state."""
        self.module = None
        if Capabilities(self._opened).renew is not None:
            self._end()
        elif self._pristine is not None:
            self._undone()

    @property
    def opened(self) -> Any:
        """The tracefs under the pristine one, if it lasts for more than one test; None for a simulator."""
        return self._opened

    def release(self, tracefs: Any) -> str:
        """Return the release of the kernel under a tracefs that `fresh` gave."""
        if self.is_simulated:
            return str(tracefs.kernel.release)
        machine = Capabilities(self._opened).machine
        return str(os.uname().release if machine is None else machine.release)

    def __enter__(self) -> Backend:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _undone(self) -> bool:
        """Restore the tracefs; return False if it can't be restored, and so not be used again."""
        assert self._pristine is not None
        try:
            left = "; ".join(self._pristine.reset())
        except Exception as error:  # the machine may have died, or the kernel may give an answer that no other does
            left = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        if not left:
            return True
        self._note(self._user, left)
        self._pristine = None
        if Capabilities(self._opened).renew is None:
            self._failure = (
                f"--tracefs {self.spec} can't be used any more, because {self._user} left this behind: {left}"
            )
        return False

    def _must_renew(self, exclusive: bool) -> bool:
        offered = Capabilities(self._opened)
        return offered.renew is not None and (exclusive or self._was_exclusive or not offered.is_alive)

    def _open(self, open_tracefs: Callable[[str], Any]) -> Any:
        if self._failure:
            raise Unusable(self._failure)  # a second attempt would fail the same way, and may be slow
        try:
            opened = open_tracefs(self.spec)
        except Exception as error:
            self._failure = f"--tracefs {self.spec} was asked for and can't run: {error}"
            raise Unusable(self._failure) from error
        except BaseException:  # the test's time is up; the other tests would wait as long
            self._failure = f"--tracefs {self.spec} was asked for and didn't come up while {self._user} waited for it"
            raise
        if not self.is_simulated:
            self._opened = opened
            self._is_open = True
        return opened

    def _renew(self) -> Any:
        self._opened = self._opened.renew()
        self._is_open = True
        return self._opened

    def _end(self) -> None:
        self._pristine = None
        if self._is_open:
            self._is_open = False
            if (close := Capabilities(self._opened).close) is not None:
                close()
