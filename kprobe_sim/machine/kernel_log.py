"""The kernel's log (dmesg): the lines that refusals put there, and what others write to /dev/kmsg."""

from __future__ import annotations

from collections.abc import Callable

_OF_THE_KERNEL = 6  # KERN_INFO: of what level a refusal's line is wasn't recorded


class KernelLog(list[str]):
    """Lines, oldest first, each with its priority and the time when it came; they come by `append` and `add`.

    `wake` is called when one has come.
    """

    def __init__(self, clock: Callable[[], int], wake: Callable[[], None]) -> None:
        super().__init__()
        self._clock = clock
        self._wake = wake
        self._heads: list[tuple[int, int]] = []  # priority and time in ns

    def append(self, line: str) -> None:
        """Take a line of the kernel's own."""
        self.add(line, _OF_THE_KERNEL)

    def add(self, line: str, priority: int) -> None:
        """Take a line; `priority` is its facility times 8 and its level."""
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
