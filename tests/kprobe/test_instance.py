"""The instance of a trace, on a tracefs whose answers are written down here."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from kprobe.errors import UndoFailed
from kprobe.undo.instance import open_instance
from kprobe.undo.owners import Owner
from kprobe.undo.undo import Undo


class Looked:
    """A tracefs of this machine on which somebody reads a file of the instance when it is to be removed."""

    def __init__(self, looks: int, root: str = "/sys/kernel/tracing") -> None:
        self.root = root
        self.looks = looks
        self.there = {"instances"}

    def exists(self, path: str) -> bool:
        return path in self.there

    def mkdir(self, path: str) -> None:
        self.there.add(path)

    def rmdir(self, path: str) -> None:
        self.looks -= 1
        if self.looks >= 0:
            raise OSError(errno.EBUSY, "Device or resource busy", path)
        self.there.remove(path)


def made(tracefs: Any) -> Undo:
    undo = Undo()
    open_instance(tracefs, undo, Owner(42, 5))
    assert tracefs.there == {"instances", "instances/kprobe_42_5_0"}
    return undo


def test_an_instance_that_somebody_looks_at_is_removed_afterwards() -> None:
    tracefs = Looked(5)
    made(tracefs).finish(None)
    assert tracefs.there == {"instances"}


def test_one_that_stays_busy_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kprobe.undo.instance.PATIENCE", 0.02)
    with pytest.raises(UndoFailed, match="remove instances/kprobe_42_5_0"):
        made(Looked(1_000_000)).finish(None)


def test_nobody_else_looks_at_one_within_this_process() -> None:
    tracefs = Looked(2, root="")
    with pytest.raises(UndoFailed):
        made(tracefs).finish(None)
    assert tracefs.looks == 0  # once, and again after the rest
