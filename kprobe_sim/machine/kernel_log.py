"""The kernel's log (dmesg): the lines of refusals, and what others write to /dev/kmsg."""

from __future__ import annotations

from collections.abc import Callable

_OF_THE_KERNEL = 6  # KERN_INFO: the level of a refusal's line wasn't recorded


class KernelLog(list[str]):
    """Lines, oldest first, each with its priority and time; `append` and `add` add one, and call `wake`."""

    def __init__(self, clock: Callable[[], int], wake: Callable[[], None]) -> None:
        super().__init__()
        self._clock = clock
        self._wake = wake
        self._heads: list[tuple[int, int]] = []  # priority and time in ns

    def append(self, line: str) -> None:
        """Add a line of the kernel itself."""
        self.add(line, _OF_THE_KERNEL)

    def add(self, line: str, priority: int) -> None:
        """Add a line; `priority` is its facility times 8 plus its level."""
        super().append(line)
        self._heads.append((priority, self._clock()))
        self._wake()

    def clear(self) -> None:
        """Forget all lines."""
        super().clear()
        self._heads.clear()

    def entry(self, number: int) -> tuple[int, int, str]:
        """Return the priority, the time in ns and the text of a line."""
        return *self._heads[number], self[number]
