"""The progress of long work: a bar on a terminal, elsewhere a line every few seconds."""

from __future__ import annotations

import sys
import time

from kprobe_text.terminal.output import Progress, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

TICK = 5.0  # seconds between two lines


class Meter:
    """Shows how much of `total` is done, in `unit`; where that is bytes, lines say how long it has taken.

    Without tqdm (extra [bulk]) a terminal gets lines, too.
    """

    def __init__(self, what: str, total: int | None, unit: str) -> None:
        self._what = what
        self._total = total
        self._unit = unit
        self._count = 0
        self._last = time.monotonic()
        self._bar: Any = _bar(what, total, unit) if sys.stderr is not None and sys.stderr.isatty() else None
        self._lines = Progress(what).__enter__() if self._bar is None and unit == "B" else None

    def add(self, count: int = 1) -> None:
        """Count finished work."""
        self._count += count
        if self._bar is not None:
            self._bar.update(count)
            return
        now = time.monotonic()
        if self._lines is None and now - self._last >= TICK:
            self._last = now
            say(f"{self._what} ... {self._count} of {self._total} {self._unit}")

    def close(self) -> None:
        """End the display."""
        if self._bar is not None:
            self._bar.close()
        if self._lines is not None:
            self._lines.__exit__()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _bar(what: str, total: int | None, unit: str) -> Any:
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    of_bytes = {"unit_scale": True, "unit_divisor": 1024} if unit == "B" else {}
    return tqdm(total=total, desc=what, unit=unit if unit == "B" else f" {unit}", leave=False, **of_bytes)
