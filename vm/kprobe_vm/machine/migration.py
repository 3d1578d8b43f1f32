"""Saves the state of a running guest: its devices, and its memory unless that is a file of ours."""

from __future__ import annotations

import contextlib
import os
import threading
import time

from kprobe_vm.machine.control import SHARED_RAM, Control, ControlLost

NAME = "state"
_PIPE = 1 << 20


def take_state(control: Control, *, shared_ram: bool, deadline: float) -> bytes:
    """Stop the guest's processors and return its state; `go_on` lets it run again.

    With `shared_ram` the state is without the memory.  The guest isn't stopped first, as a clone would then have to be
    resumed.  Raise `ControlLost` if QEMU refuses or is not done after `deadline` seconds.
    """
    if shared_ram:
        control.execute("migrate-set-capabilities", SHARED_RAM)
    reading, writing = os.pipe()
    parts: list[bytes] = []

    def read() -> None:
        with open(reading, "rb", buffering=0) as pipe:
            while part := pipe.read(_PIPE):
                parts.append(part)

    reader = threading.Thread(target=read, name="kprobe-vm state", daemon=True)
    reader.start()
    try:
        control.pass_descriptor(NAME, writing)
    finally:
        os.close(writing)
    try:
        control.execute("migrate", {"uri": f"fd:{NAME}"})
        _wait_completed(control, time.monotonic() + deadline)
        reader.join(deadline)
    except BaseException:  # Ctrl-C as well
        with contextlib.suppress(ControlLost):
            control.execute("migrate_cancel")
        raise
    return b"".join(parts)


def _wait_completed(control: Control, end: float) -> None:
    while True:
        answer = control.execute("query-migrate")
        facts = answer if isinstance(answer, dict) else {}
        if facts.get("status") == "completed":
            return
        if facts.get("status") in ("failed", "cancelled"):
            raise ControlLost(f"the state could not be saved: {facts.get('error-desc', facts['status'])}")
        if time.monotonic() > end:
            raise ControlLost("the state is not saved yet")
        time.sleep(0.005)  # QEMU reports the end only when asked
