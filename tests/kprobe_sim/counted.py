"""What an action costs, counted in calls of functions, which no other load changes."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType


def count_calls(action: Callable[[], object], *events: str) -> int:
    """Return how many functions an action calls: "call" are those in Python, "c_call" those in C.

    The collector of garbage rests meanwhile: what it calls (hypothesis has something for it) isn't the action's.
    """
    count = 0

    def note(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event in events

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return count
