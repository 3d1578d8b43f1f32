"""Lines of a trace as they are read: one text, of which each read takes some lines."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import accumulate, pairwise


class Lines:
    """Lines that stand in one text, taken from the first to the last; they may end in any way, or be empty."""

    __slots__ = ("_ends", "_taken", "_text")

    def __init__(self, text: bytes, lengths: Iterable[int]) -> None:
        self._text = text
        self._ends = [0, *accumulate(lengths)]  # bytes before each line, and of all
        self._taken = 0  # lines

    @classmethod
    def of(cls, lines: list[bytes]) -> Lines:
        """Return these lines."""
        return cls(b"".join(lines), map(len, lines))

    def changed(self, change: Callable[[list[bytes]], list[bytes]]) -> Lines:
        """Return what becomes of all lines."""
        ends = self._ends
        return Lines.of(change([self._text[start:end] for start, end in pairwise(ends)]))

    def __len__(self) -> int:
        """Return how many lines there are, those that were taken among them."""
        return len(self._ends) - 1

    def take(self, enough: int) -> tuple[bytes, int, bytes]:
        """Take lines until they are `enough` bytes long or there are no more.

        Returns the text of all but the one that makes it enough, how many these are, and that one: b"" if there is
        none.
        """
        ends, first = self._ends, self._taken
        start = ends[first]
        place = bisect_left(ends, start + enough, first + 1) - 1
        self._taken = min(place + 1, len(ends) - 1)
        end = ends[place]
        return self._text[start:end], place - first, self._text[end : ends[self._taken]]
