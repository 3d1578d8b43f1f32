"""Lines of a trace joined to one text, from which each read takes some."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import accumulate, pairwise


class JoinedLines:
    """Lines in one text, taken from the first to the last; a line may end in any way, or be empty."""

    __slots__ = ("_ends", "_taken", "_text")

    def __init__(self, text: bytes, lengths: Iterable[int]) -> None:
        self._text = text
        self._ends = [0, *accumulate(lengths)]  # bytes before each line, and of all lines
        self._taken = 0  # lines

    @classmethod
    def of(cls, lines: list[bytes]) -> JoinedLines:
        """Join these lines."""
        return cls(b"".join(lines), map(len, lines))

    def changed(self, change: Callable[[list[bytes]], list[bytes]]) -> JoinedLines:
        """Return the lines that `change` makes of all these."""
        ends = self._ends
        return JoinedLines.of(change([self._text[start:end] for start, end in pairwise(ends)]))

    def __len__(self) -> int:
        """Return the number of lines, including those that were taken."""
        return len(self._ends) - 1

    def take(self, enough: int) -> tuple[bytes, int, bytes]:
        """Take lines until they are `enough` bytes long or there are no more.

        Returns the text of all but the line that reaches that length, how many these are, and that line: b"" if there
        is none.
        """
        ends, first = self._ends, self._taken
        start = ends[first]
        last = bisect_left(ends, start + enough, first + 1) - 1
        self._taken = min(last + 1, len(ends) - 1)
        end = ends[last]
        return self._text[start:end], last - first, self._text[end : ends[self._taken]]
