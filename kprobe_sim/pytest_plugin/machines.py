"""The backend that a pytest run tests on: opened late, closed early, and reported once if it isn't available."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from kprobe_sim.kernel.backend import open_sim
from kprobe_sim.machine.clock import VirtualClock

from .pristine import Pristine

__all__ = ["Backend", "Unusable"]


def _open_still(spec: str) -> Any:
    return open_sim(spec.partition(":")[2], clock=VirtualClock())


class Unusable(Exception):
    """Tests can't run on the backend that was asked for."""


class Backend:
    """What one `--tracefs` spec names.

    A simulator is made anew for each test.  What has a method `renew` (a guest) is had anew for each test module, or
    each test that wants its own; anything else stays, and is put back into its state after each test.  `note` is called
    with the name of a test that left what can't be undone, and with what that is.

    `module` is the test module that calls `end_module` at its end.
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
        self._is_own = False  # the last test had a machine of its own
        self._pristine: Pristine | None = None
        self._failure = ""
        self.absent: dict[str, str] | None = None  # what this kernel lacks, once a test has asked (unsupported.py)

    def fresh(self, test: str = "", *, own: bool, still: bool = False) -> Any:
        """Return a pristine tracefs for a test, which is named if it leaves what can't be undone.

        With `own` no other test has used that machine or will, if it can be had anew.  With `still` a simulated
        machine's time moves only when it is looked at.
        """
        if self.is_simulated:
            return self._open(_open_still if still else self._open_tracefs)
        if self._pristine is not None and not self._must_renew(own) and self._undone():
            self._user = test
            return self._pristine
        self._user = test
        self._is_own = own
        self._pristine = None
        opened = (
            self._open(self._open_tracefs)
            if self._opened is None or not hasattr(self._opened, "renew")
            else self._renew()
        )
        pristine = Pristine(opened)
        if pristine.is_in_use():
            raise Unusable(f"--tracefs {self.spec}: somebody traces there; tests would end their work")
        self._pristine = pristine
        return pristine

    def end_module(self) -> None:
        """End what the next test module mustn't see."""
        self.module = None
        if hasattr(self._opened, "renew"):
            self._end()
        elif self._pristine is not None:
            self._undone()

    @property
    def opened(self) -> Any:
        """The guest's tracefs, or what else stays for more than a test, without notes of what is done; else None."""
        return self._opened

    def release(self, tracefs: Any) -> str:
        """Return the release of the kernel under a tracefs that `fresh` gave."""
        if self.is_simulated:
            return str(tracefs.kernel.release)
        machine = getattr(self._opened, "machine", None)
        return str(os.uname().release if machine is None else machine.release)

    def __enter__(self) -> Backend:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _undone(self) -> bool:
        """Put the tracefs back into its state; return whether that could be done, else it is of no more use."""
        assert self._pristine is not None
        try:
            left = "; ".join(self._pristine.reset())
        except Exception as error:  # a machine that died of it, or a kernel that answers as none was seen to
            left = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        if not left:
            return True
        self._note(self._user, left)
        self._pristine = None
        if not hasattr(self._opened, "renew"):
            self._failure = f"--tracefs {self.spec} can't be used any more: {self._user} left there: {left}"
        return False

    def _must_renew(self, own: bool) -> bool:
        if not hasattr(self._opened, "renew"):
            return False
        return own or self._is_own or not self._opened.is_alive

    def _open(self, open_tracefs: Callable[[str], Any]) -> Any:
        if self._failure:
            raise Unusable(self._failure)  # it is as it was, and may take its time to tell
        try:
            opened = open_tracefs(self.spec)
        except Exception as error:
            self._failure = f"--tracefs {self.spec} was asked for and can't run: {error}"
            raise Unusable(self._failure) from error
        except BaseException:  # the test's time is up: each of the others would wait as long
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
            close = getattr(self._opened, "close", None)
            if close is not None:
                close()
