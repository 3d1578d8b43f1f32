"""Sessions on one tracefs of this machine take turns."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from kprobe import LocalTracefs
from kprobe.tracefs import turn
from kprobe.tracefs.turn import Turn


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_the_second_waits_for_the_first(tmp_path: Path) -> None:
    log: list[str] = []
    tracefs = LocalTracefs(str(tmp_path))

    def second() -> None:
        with Turn(tracefs):
            log.append("second")

    with Turn(tracefs):
        other = threading.Thread(target=second)
        other.start()
        other.join(0.05)  # it would be done by now
        log.append("first")
    other.join()
    assert log == ["first", "second"]


def test_a_holder_that_hangs_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "PATIENCE", 0.0)
    tracefs = LocalTracefs(str(tmp_path))
    with Turn(tracefs), Turn(tracefs):
        pass


def test_it_leaves_no_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = descriptors()
    with Turn(LocalTracefs(str(tmp_path))):
        assert descriptors() == before + 1
    assert descriptors() == before

    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(turn, "_lock", interrupted)
    with pytest.raises(KeyboardInterrupt), Turn(LocalTracefs(str(tmp_path))):
        pass
    assert descriptors() == before


def test_where_there_is_nothing_to_lock(scripted: Any, tmp_path: Path) -> None:
    for tracefs in (scripted, LocalTracefs(str(tmp_path / "no"))):
        with Turn(tracefs):
            pass
