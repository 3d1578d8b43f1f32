"""The backend that a run of pytest tests on: opened late, ended early, and told of once if it can't be had."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .pristine import Pristine

__all__ = ["Backend", "Unusable"]


class Unusable(Exception):
    """Tests can't run on the backend that was asked for."""


class Backend:
    """What one `--tracefs` spec names.

    A simulator is made anew for each test.  What has a method `renew` (a guest) is had anew for each test module, or
    each test that wants its own; anything else stays, and is put back into its state after each test.
    """

    def __init__(self, spec: str, open_tracefs: Callable[[str], Any]) -> None:
        self._spec = spec
        self._open_tracefs = open_tracefs
        self._is_simulated = spec.partition(":")[0] == "sim"
        self._opened: Any = None
        self._is_open = False
        self._is_own = False  # the last test had a machine of its own
        self._pristine: Pristine | None = None
        self._failure = ""

    def fresh(self, *, own: bool) -> Any:
        """Return a pristine tracefs; with `own` no other test has used that machine or will, if it can be had anew."""
        if self._is_simulated:
            return self._open()
        if self._pristine is not None and not self._must_renew(own):
            self._pristine.reset()
            return self._pristine
        self._is_own = own
        self._pristine = None
        opened = self._open() if self._opened is None else self._renew()
        self._pristine = Pristine(opened)
        if self._pristine.is_in_use():
            raise Unusable(f"--tracefs {self._spec}: somebody traces there; tests would end their work")
        return self._pristine

    def end_module(self) -> None:
        """End what the next test module shall not see."""
        if hasattr(self._opened, "renew"):
            self._end()
        elif self._pristine is not None:
            self._pristine.reset()

    def __enter__(self) -> Backend:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _must_renew(self, own: bool) -> bool:
        if not hasattr(self._opened, "renew"):
            return False
        return own or self._is_own or not self._opened.is_alive

    def _open(self) -> Any:
        if self._failure:
            raise Unusable(self._failure)  # it is as it was, and may take its time to tell
        try:
            opened = self._open_tracefs(self._spec)
        except Exception as error:
            self._failure = f"--tracefs {self._spec} was asked for and can't run: {error}"
            raise Unusable(self._failure) from error
        if not self._is_simulated:
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
