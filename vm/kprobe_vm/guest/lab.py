"""Machines of one kind, one after another: while one is in use the next one waits, cloned and stopped."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

from kprobe_vm.errors import MachineDied, MachineError
from kprobe_vm.machine.control import ControlLost
from kprobe_vm.machine.machine import Machine


class _Spare:
    """A machine that is being started by a thread, and then stopped until it is wanted."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._ready = False
        self._thread = threading.Thread(target=self._prepare, name="kprobe-vm spare", daemon=True)
        self._thread.start()

    def _prepare(self) -> None:
        # the caller then starts a machine itself, and gets the error
        with contextlib.suppress(MachineError, OSError):
            self._machine.start()
            with contextlib.suppress(ControlLost):
                self._machine.boot.control.execute("stop")
                self._ready = True

    def take(self) -> Machine | None:
        """Return the machine, running; None if it failed to start."""
        self._thread.join()
        if self._ready:
            with contextlib.suppress(ControlLost, MachineDied, OSError):
                self._machine.boot.control.execute("cont")
                self._machine.set_clock(time.time())
                return self._machine
        self._machine.close()
        return None

    def close(self) -> None:
        self._thread.join()
        self._machine.close()


class Lab:
    """Gives machines, which the taker closes; `make` returns one that isn't started, `spare` a silent one.

    Any thread may call its methods.
    """

    def __init__(self, make: Callable[[], Machine], *, spare: Callable[[], Machine] | None = None) -> None:
        self._make = make
        self._make_spare = spare or make
        self._lock = threading.Lock()
        self._spare: _Spare | None = None

    def machine(self) -> Machine:
        """Return a started machine, the spare one if there is one; raise what `Machine.start` does."""
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is not None and (machine := spare.take()) is not None:
            return machine
        machine = self._make()
        machine.start()
        return machine

    def prepare(self) -> None:
        """Begin to start a spare machine, unless there is one."""
        with self._lock:
            if self._spare is None:
                self._spare = _Spare(self._make_spare())

    def close(self) -> None:
        """End the spare machine; machines that were given out belong to the takers."""
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is not None:
            spare.close()

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
